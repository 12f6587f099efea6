"""The seam between tools and everything else.

A tool is an object with a ``spec`` and an async ``run(request, context)``. It knows requests and outcomes, nothing of
workflows. Built-in tools and third-party ones register by the same entry-point group, ``noetl.tools``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec

from noetl_activities.outcome import Json, Outcome

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["BUILT_IN", "Credential", "Json", "Request", "Tool", "ToolContext", "ToolSpec", "load_tools", "tool_names"]

BUILT_IN = frozenset({"duckdb", "http", "noop", "postgres", "python"})
"""The kinds that this package registers."""

Credential: TypeAlias = Mapping[str, Any]
"""``{"type": "postgres", "db_host": ...}``: resolved, secret, never logged."""


class Request(msgspec.Struct, frozen=True):
    """One rendered call. ``timeout`` in seconds, the tool's own where the call has none; who runs the tool keeps it.
    ``key`` identifies the call for exactly-once effects and is stable over attempts:
    ``<execution>/<step run>/<iteration>/<task>/<page>``; ``n`` is one more than its attempts that went well, so a call
    that is repeated after a good outcome differs. ``idempotency_key`` is the name of the header to send both in.
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


class ToolSpec(msgspec.Struct, frozen=True):
    """``effects`` False marks a tool whose call changes nothing outside. ``timeout`` is that of a call that names none:
    seconds for the whole call with its sinks, None for no limit (semantics.md 21). ``at_once`` is how many calls may
    run in one process; ``cores`` for as many as it has processors, None for no limit.
    """

    kind: str
    summary: str
    effects: bool = True
    timeout: float | None = None
    at_once: int | Literal["cores"] | None = None


class ToolContext(Protocol):
    """What a running call may ask of its surroundings."""

    @property
    def attempt(self) -> int:
        """1-based number of this attempt."""
        ...

    def heartbeat(self) -> None:
        """Tell that the call is alive; cheap."""
        ...

    async def credential(self, auth: Json) -> Credential:
        """Resolve a credential name, an ``{type, credential|key, ...}`` map or an inline map.

        Every value resolved is scrubbed from outcomes and errors later. Raises CredentialError.
        """
        ...

    def cut(self, text: str, limit: int) -> str:
        """The first ``limit`` characters of a text from outside, without the secrets of the call.

        A tool that shortens what it was sent does it with this: of a secret that a cut divides the first half would
        stay. A text that was cut before needs ``scrub.CUT_MARGIN`` characters more than the limit.
        """
        ...


class Tool(Protocol):
    """One tool kind."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Make the call. An expected failure is an error outcome; ToolError where the call itself is wrong.

        Cancellation arrives as asyncio.CancelledError and must leave nothing running.
        """
        ...


def load_tools(group: str = "noetl.tools") -> Mapping[str, Tool]:
    """Every registered tool by kind, as a new immutable mapping.

    Raises ValueError naming both distributions when two register the same kind.
    """
    loaders = {kind: cast("Callable[[], Tool]", point.load) for kind, point in _registered(group).items()}
    return MappingProxyType({kind: load() for kind, load in loaders.items()})


def tool_names(group: str = "noetl.tools") -> frozenset[str]:
    """The kinds of ``load_tools``, without importing any of the tools. Raises the same."""
    return frozenset(_registered(group))


def _registered(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and not needed where BUILT_IN is enough

    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        other = found.setdefault(point.name, point)
        if other is not point:
            raise ValueError(f"tool {point.name!r} is registered by both {_owner(other)} and {_owner(point)}")
    return found


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"
