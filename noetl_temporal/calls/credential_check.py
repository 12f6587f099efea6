"""Checks before a run is submitted whether its workers have the credentials that the playbooks name, and the keys.

Only the workers that call a tool know its credentials, so each of their queues is asked, by an activity without a
workflow (Temporal's standalone activities). It receives names and returns error messages: no secret leaves the worker.
A queue without workers, or a server without such activities, is no reason to refuse a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
from temporalio import activity
from temporalio.client import ActivityFailureError, Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from noetl_activities.credentials import CredentialSource
from noetl_activities.errors import CredentialError
from noetl_compiler.credential_names import credentials_without_template
from noetl_compiler.graph import Graph, Span
from noetl_compiler.language.tools import IN_WORKFLOW
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.messages.frame import FRAME_KIND
from noetl_temporal.naming import queue_of, tool_queue
from noetl_temporal.payloads.encryption import DecryptionError
from noetl_temporal.queues import resolved_queues

__all__ = ["CredentialNames", "credential_activity", "missing_credentials"]

ACTIVITY = "noetl.credentials"

RESPONSE_TIMEOUT = timedelta(seconds=3)
"""A worker usually responds within 50 ms."""

_KEYS_HINT = (
    "start them with the NOETL_ENCRYPTION_KEYS and the NOETL_SIGNING_KEY_FILE that are set here, or unset these here"
)


class CredentialNames(msgspec.Struct, frozen=True):
    """The input of the activity."""

    names: list[str]


class CredentialProblems(msgspec.Struct, frozen=True):
    """The result of the activity: an error message for each credential that cannot be used, by its name."""

    problems: dict[str, str]


def credential_activity(source: CredentialSource) -> Callable[..., Any]:
    """Return the activity, of every worker that calls tools."""

    @activity.defn(name=ACTIVITY)
    async def check(request: CredentialNames) -> CredentialProblems:
        return CredentialProblems(
            {name: message for name in request.names if (message := credential_error(name, source))}
        )

    return check


def credential_error(name: str, source: CredentialSource) -> str:
    """Return the error message for a credential that cannot be used; "" if it can."""
    try:
        source.find(name)
    except CredentialError as error:
        return str(error)
    return ""


async def missing_credentials(client: Client, graphs: Iterable[Graph]) -> list[str]:
    """Return an error, ``file:line:col: error: ...``, for each use of a credential that the workers of its tool do not
    have. Names that are templates are not checked. A client that encrypts asks all queues of tools. Raises
    DeploymentError if workers have other keys than this process.
    """
    graphs = list(graphs)
    uses = _uses_by_queue(graphs, resolved_queues(graphs, {}))
    if client.data_converter.payload_codec is None:
        uses = {queue: names for queue, names in uses.items() if names}
    problems_by_queue = await asyncio.gather(
        *(_ask_workers(client, queue, list(locations)) for queue, locations in uses.items())
    )
    return [
        f"{location}: error: {problem}"
        for locations, problems in zip(uses.values(), problems_by_queue, strict=True)
        for name, problem in problems.items()
        for location in locations[name]
    ]


def _uses_by_queue(graphs: Iterable[Graph], queues: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return the locations at which each credential is used, by queue and name."""
    uses: dict[str, dict[str, list[str]]] = {}
    for graph in graphs:
        for step in graph.steps.values():
            is_framed = step.loop is not None and step.loop.frame is not None
            for task in (item for item in step.tasks if item.kind not in IN_WORKFLOW):
                queue = tool_queue(FRAME_KIND) if is_framed else queue_of(task.queue, queues)
                names = uses.setdefault(queue, {})
                for name, span in credentials_without_template(graph, task).items():
                    names.setdefault(name, []).append(_location_of(graph, span))
    return uses


def _location_of(graph: Graph, span: Span) -> str:
    return f"{graph.source.file}:{span.line}:{span.col}"


async def _ask_workers(client: Client, queue: str, names: list[str]) -> dict[str, str]:
    """Return the problems that the workers of a queue have with these names; none if no worker answers."""
    try:
        response: CredentialProblems = await client.execute_activity(
            ACTIVITY,
            CredentialNames(names),
            id=f"credentials/{uuid4()}",
            task_queue=queue,
            result_type=CredentialProblems,
            schedule_to_close_timeout=RESPONSE_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
    except (ActivityFailureError, DecryptionError) as error:
        # A worker that responds with a failure cannot decode the request. If no worker polls, the call times out.
        if isinstance(error, DecryptionError) or isinstance(error.cause, ApplicationError):
            raise DeploymentError(
                f"the workers of {queue} cannot read payloads from this client: {_KEYS_HINT}"
            ) from error
        return {}
    except RPCError:
        return {}
    return response.problems
