"""The interface of tools.

A tool is an object with a ``spec`` (tool_spec.py) and an async ``run(request, context)``, which returns an outcome. It
knows nothing of workflows. Built-in tools and those of other packages are registered in the same entry-point group,
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
    "describe_load_error",
    "load_tool",
    "load_tools",
    "package_name",
    "tool_entry_points",
    "tool_kinds",
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
    """One call, with its templates rendered.

    ``timeout`` is in seconds, by default that of the tool; the caller enforces it. ``key`` identifies the call for
    exactly-once effects: it is the same for all attempts, ``<execution>/<step run>/<iteration>/<task>/<page>``.
    ``repetition``, from 1, rises when a call that succeeded is made again, but not with retries.
    ``idempotency_header`` names the header that carries a digest of ``key`` and ``repetition``.
    """

    kind: str
    config: dict[str, Json]
    input: dict[str, Json] = {}
    auth: Json = None
    timeout: float | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None
    key: str = ""
    repetition: int = 1
    idempotency_header: str | None = None
    execution_id: str = ""


class ToolContext(Protocol):
    """The services available to a running call."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ...

    def heartbeat(self) -> None:
        """Report that the call is alive. May be called often."""
        ...

    async def credential(self, auth: Json) -> Credential:
        """Resolve the name of a credential, a mapping ``{type, credential|key, ...}``, or the fields themselves.

        All secret values of the credential are masked in outcomes and errors. Raises CredentialError.
        """
        ...

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        """Return a reference to an existing secret: the text that represents the secret in results.

        ``entry_kind`` and ``config`` are those of a keychain entry. Raises CredentialError, SecretError.
        """
        ...

    def truncate(self, text: str, limit: int) -> str:
        """Return the first ``limit`` characters of a received text, with the secrets of the call masked.

        Tools must truncate received text with this method: cutting a secret in half would leave its first half
        unmasked. A text that is already truncated must have ``scrub.TRUNCATION_MARGIN`` more characters than the limit.
        """
        ...

    def output(self, stream: OutputStream, text: str) -> None:
        """Log output of the task's code. This is cheap, and never raises.

        A text may end anywhere in a line. The secrets of the call are masked, and the size of the log is limited.
        """
        ...


class Tool(Protocol):
    """A tool."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Make the call. An expected failure is an error outcome; raises ToolError if the call itself is invalid.

        Cancellation arrives as asyncio.CancelledError and must leave nothing running.
        """
        ...


def load_tools() -> Mapping[str, Tool]:
    """Return all registered tools by kind. A tool of another package that cannot be loaded is omitted, and the error
    logged, so that the other tools still work.

    Raises ValueError, which names both packages, if two register the same kind.
    """
    tools: dict[str, Tool] = {}
    for kind, entry_point in _unique_entry_points().items():
        try:
            tools[kind] = load_tool(entry_point)
        except Exception as error:
            if kind in BUILT_IN:
                raise
            import logging  # slow to import, and a DuckDB process seldom needs it

            logging.getLogger(__name__).error(
                "the tool %s is omitted: %s", kind, describe_load_error(entry_point, error)
            )
    return MappingProxyType(tools)


def load_tool(entry_point: EntryPoint) -> Tool:
    """Import the tool of an entry point. Raises any error of its module, and ValueError if its kind differs."""
    tool = cast("Tool", entry_point.load())
    if tool.spec.kind != entry_point.name:
        raise ValueError(
            f"the tool {tool.spec.kind!r} is registered as {entry_point.name!r}: an entry point has the kind's name"
        )
    return tool


def describe_load_error(entry_point: EntryPoint, error: Exception) -> str:
    """Describe in one line why a tool could not be loaded, with the name of its package."""
    return " ".join(f"{package_name(entry_point)}: {type(error).__name__}: {error}".split())


def tool_kinds() -> frozenset[str]:
    """Return the kinds of all registered tools without importing them. Raises ValueError if two have the same kind."""
    return frozenset(_unique_entry_points())


def _unique_entry_points() -> dict[str, EntryPoint]:
    entry_points_by_kind = tool_entry_points()
    for kind, (point, *others) in entry_points_by_kind.items():
        if others:
            raise ValueError(f"tool {kind!r} is registered by both {package_name(point)} and {package_name(others[0])}")
    return {kind: points[0] for kind, points in entry_points_by_kind.items()}


def tool_entry_points() -> Mapping[str, Sequence[EntryPoint]]:
    """Return the entry points of each kind. More than one for a kind is an error, which the caller reports."""
    from importlib.metadata import entry_points  # slow to import, and not needed where BUILT_IN is enough

    by_kind: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        by_kind.setdefault(point.name, []).append(point)
    return by_kind


def package_name(entry_point: EntryPoint) -> str:
    """Return the name of the package that registers a tool."""
    return entry_point.dist.name if entry_point.dist else "?"
