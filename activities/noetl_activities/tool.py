"""The interface of tools.

A tool is an object with a ``spec`` (tool_spec.py) and an async ``run(request, context)``. It knows requests and
outcomes, but not workflows. Built-in tools and those of other packages are registered in the same entry-point group,
``noetl.tools``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec

from noetl_activities.outcome import Json, Outcome

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from noetl_activities.tool_spec import ToolSpec

__all__ = [
    "BUILT_IN",
    "Credential",
    "Json",
    "OutputStream",
    "Request",
    "Tool",
    "ToolContext",
    "load_problem",
    "load_tools",
    "loaded",
    "owner",
    "registrations",
    "tool_names",
]

_GROUP = "noetl.tools"
"""The group of entry points that register tools."""


BUILT_IN = frozenset(
    {
        *("container", "duckdb", "http", "nats", "noop", "postgres", "python", "quantum"),
        *("artifact", "secrets", "shell", "snowflake", "snowflake_transfer", "transfer"),
    }
)
"""The kinds that this package registers."""

Credential: TypeAlias = Mapping[str, Any]
"""A resolved credential, ``{"type": "postgres", "db_host": ...}``: secret, never logged."""

OutputStream: TypeAlias = Literal["stdout", "stderr"]
"""The streams that the code of a task prints to."""


class Request(msgspec.Struct, frozen=True):
    """One rendered call. ``timeout`` in seconds, by default that of the tool; the caller enforces it.
    ``key`` identifies the call for exactly-once effects and is the same for all attempts:
    ``<execution>/<step run>/<iteration>/<task>/<page>``; ``n`` is one more than its successful attempts, so a call
    that is repeated after a success differs. ``idempotency_key`` is the name of the header to send both in.
    """

    kind: str
    config: dict[str, Json]
    input: dict[str, Json] = {}
    auth: Json = None
    timeout: float | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None
    key: str = ""
    n: int = 1
    idempotency_key: str | None = None
    execution_id: str = ""


class ToolContext(Protocol):
    """The services available to a running call."""

    @property
    def attempt(self) -> int:
        """1-based number of this attempt."""
        ...

    def heartbeat(self) -> None:
        """Report that the call is alive; cheap."""
        ...

    async def credential(self, auth: Json) -> Credential:
        """Resolve a credential name, an ``{type, credential|key, ...}`` map or an inline map.

        All its values are masked in outcomes and errors. Raises CredentialError.
        """
        ...

    async def secret(self, name: str, kind: str, config: dict[str, Json]) -> str:
        """A reference to an existing secret: the text that represents it in results.

        ``kind`` and ``config`` say where it is, as in an entry of the keychain. Raises CredentialError, SecretError.
        """
        ...

    def cut(self, text: str, limit: int) -> str:
        """The first ``limit`` characters of a text from outside, with the secrets of the call masked.

        Tools must truncate received text with this: otherwise the first half of a secret could remain. A text that was
        truncated before must have ``scrub.CUT_MARGIN`` characters more than the limit.
        """
        ...

    def output(self, stream: OutputStream, text: str) -> None:
        """Log output of the task's code; cheap, and never fails.

        A text may end anywhere in a line. The log masks the secrets of the call and limits the size.
        """
        ...


class Tool(Protocol):
    """One tool kind."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Make the call. An expected failure is an error outcome; raises ToolError if the call itself is invalid.

        Cancellation arrives as asyncio.CancelledError and must leave nothing running.
        """
        ...


def load_tools() -> Mapping[str, Tool]:
    """Return all registered tools by kind, as a new immutable mapping. A tool of another package that cannot be loaded
    is logged and left out, so that others still work.

    Raises ValueError that names both distributions if two register the same kind.
    """
    tools: dict[str, Tool] = {}
    for kind, point in _registered().items():
        try:
            tools[kind] = loaded(point)
        except Exception as error:
            if kind in BUILT_IN:
                raise
            import logging  # slow to import, and a DuckDB child seldom needs it

            logging.getLogger(__name__).error("the tool %s is left out: %s", kind, load_problem(point, error))
    return MappingProxyType(tools)


def loaded(point: EntryPoint) -> Tool:
    """Return the tool of an entry point. Raises the errors of its module; ValueError if the tool has another kind."""
    tool = cast("Tool", point.load())
    if tool.spec.kind != point.name:
        raise ValueError(
            f"the tool {tool.spec.kind!r} is registered as {point.name!r}: an entry point has the kind's name"
        )
    return tool


def load_problem(point: EntryPoint, error: Exception) -> str:
    """Return the package and its error, in one line."""
    return " ".join(f"{owner(point)}: {type(error).__name__}: {error}".split())


def tool_names() -> frozenset[str]:
    """Return the kinds of ``load_tools``, without importing the tools. Raises ValueError if two have the same kind."""
    return frozenset(_registered())


def _registered() -> dict[str, EntryPoint]:
    entry_points_by_kind = registrations()
    for kind, (point, *others) in entry_points_by_kind.items():
        if others:
            raise ValueError(f"tool {kind!r} is registered by both {owner(point)} and {owner(others[0])}")
    return {kind: points[0] for kind, points in entry_points_by_kind.items()}


def registrations() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the entry points of each kind; more than one is an error."""
    from importlib.metadata import entry_points  # slow to import, and not needed where BUILT_IN is enough

    by_kind: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        by_kind.setdefault(point.name, []).append(point)
    return by_kind


def owner(point: EntryPoint) -> str:
    """The name of the package that registers a tool."""
    return point.dist.name if point.dist else "?"
