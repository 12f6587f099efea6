"""Prepares a playbook for a run: compiles it, pins the playbooks that it calls, and refuses what cannot run here."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from temporalio.converter import DataConverter

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls, has_calls
from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.payloads.codec import payload_limit
from noetl_temporal.queues import resolved_queues
from noetl_temporal.submission.catalog_client import PlaybookCatalog
from noetl_temporal.submission.catalog_runs import compile_entry, compile_error
from noetl_temporal.submission.catalog_store import CatalogEntry
from noetl_temporal.submission.compiling import compile_to_run
from noetl_temporal.submission.unsupported import UnsupportedError, check_calls

__all__ = ["CalledPlaybooks", "Preparation", "SubmittedPlaybook"]

SubmittedPlaybook: TypeAlias = str | Path | Graph | CatalogEntry
"""A file, a compiled graph, or a version of the catalog."""

CalledPlaybooks: TypeAlias = str | Path | Mapping[str, Graph] | PinnedCalls | None
"""A folder, compiled graphs by the names with which they are called, or pinned playbooks."""


class Preparation(NamedTuple):
    """Prepares playbooks for runs in a deployment. ``tools`` are the kinds of tools that its workers have."""

    catalog: PlaybookCatalog
    converter: DataConverter
    tools: Collection[str]

    async def prepare(
        self,
        playbook: SubmittedPlaybook,
        payload: Mapping[str, Json],
        *,
        content: str | None = None,
        playbooks: CalledPlaybooks = None,
    ) -> Playbook:
        """Return the playbook of a run. Raises CompileError, UnsupportedError, DeploymentError, NoEventLogError."""
        graph, text, calls = await self._compile(playbook, payload, content, playbooks)
        has_store = self.converter.external_storage is not None
        calls, problems = check_calls(graph, calls, self.tools, has_store=has_store)
        if problems:
            raise UnsupportedError(problems)
        return Playbook(graph, text, calls)

    async def _compile(
        self, playbook: SubmittedPlaybook, payload: Mapping[str, Json], content: str | None, playbooks: CalledPlaybooks
    ) -> tuple[Graph, str, PinnedCalls]:
        match playbook:
            case CatalogEntry():
                graph, calls = await compile_entry(self.catalog.dsn, playbook, payload)
                return graph, playbook.content, calls
            case Graph():
                return playbook, content or "", _pin_calls(playbooks, None) if has_calls(playbook) else NO_CALLS
            case _:
                file = Path(playbook)
                result = await asyncio.to_thread(compile_to_run, file, payload)  # scripts are fetched
                if result.graph is None:
                    raise compile_error([result])
                calls = _pin_calls(playbooks, file) if has_calls(result.graph) else NO_CALLS
                return result.graph, result.source.text, calls

    def run_input(
        self,
        playbook: Playbook,
        payload: Mapping[str, Json],
        execution_id: int,
        queues: Mapping[str, str],
        schedule: str = "",
    ) -> RunInput:
        """Return the input of a run of the playbook. ``schedule`` is the name of its schedule, if it has one."""
        source = playbook.graph.source
        task_queues = resolved_queues([playbook.graph, *playbook.calls.graphs], queues)
        return RunInput(
            execution_id,
            source.path,
            source.version,
            playbook.graph.digest,
            dict(payload),
            task_queues,
            limit=payload_limit(self.converter),
            schedule=schedule,
        )


def _pin_calls(playbooks: CalledPlaybooks, file: Path | None) -> PinnedCalls:
    """Return the playbooks that may be called. Raises CompileError."""
    from noetl_compiler.pinning import pin_file, pin_graphs

    match playbooks:
        case PinnedCalls():
            return playbooks
        case Mapping():
            return pin_graphs(playbooks.items())
        case _ if file is None:
            if playbooks is not None:
                raise ValueError(
                    "a folder of playbooks needs the file of the caller: for a compiled graph, pass graphs by name"
                )
            return NO_CALLS
        case _:
            calls, problems = pin_file(file, file.parent if playbooks is None else Path(playbooks), installed_tools())
    if problems:
        raise compile_error(problems)
    return calls
