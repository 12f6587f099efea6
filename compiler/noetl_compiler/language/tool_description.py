"""What the compiler knows of a tool kind, as plain data.

The kinds that NoETL itself knows are a table of these (``tools.py``). An installed tool brings its own: its ToolSpec
describes itself as one of these (noetl_activities.tool), and callers pass it to the compiler as ``tools``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

__all__ = ["EFFECTS", "Effect", "FieldType", "Guarantee", "HowOften", "ToolDescription", "ToolField", "Tools"]

Effect: TypeAlias = Literal["none", "code", "request", "transaction", "rows", "service", "run"]
"""What a call does outside: nothing, whatever its code does, what a server does at its request, SQL in a transaction
that keeps the call's outcome in the ledger beside what it wrote (semantics.md 26a), rows that are stored as a sink
stores them, what a service does that is no web server, or a run of its own.
"""

EFFECTS: Mapping[Effect, str] = MappingProxyType(
    {
        "none": "A call changes nothing outside, so repeating it does no harm.",
        "code": "A call takes effect at least once: it is repeated when its worker is lost before it has reported.",
        "request": "A call takes effect at least once: it is repeated when its worker is lost before the server has "
        "answered. A server that takes an idempotency_key makes that exactly once.",
        "transaction": "A call takes effect exactly once where its SQL stays in one transaction, which also keeps its "
        "outcome.",
        "rows": "A call takes effect exactly once where a database with a ledger stores the rows: one transaction has "
        "them and the outcome. Elsewhere rows are stored at least once.",
        "service": "A call takes effect at least once: it is repeated when its worker is lost before it has reported.",
        "run": "A call starts one run, exactly once; the calls of that run have their own guarantees.",
    }
)
"""What each means for a call whose playbook says nothing else, for people."""

FieldType: TypeAlias = Literal["text", "number", "flag", "mapping", "list"]

HowOften: TypeAlias = Literal["exactly once", "at least once", "at most once"]


class Guarantee(NamedTuple):
    """How often a call takes effect despite crashes. ``str()`` of it is a line for people."""

    word: HowOften
    why: str

    def __str__(self) -> str:
        return f"{self.word}: {self.why}"


class ToolField(msgspec.Struct, frozen=True):
    """One field of a call or of a result. ``about`` is a sentence for people.

    ``types`` are those that a value may have, any when empty; ``choices`` are the only words it may be. ``default`` is
    what an absent field counts as, where that is a value. A ``rare`` field is accepted, and not proposed by editors.
    """

    about: str
    types: tuple[FieldType, ...] = ()
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    default: Any = None
    examples: tuple[Any, ...] = ()
    is_rare: bool = False


class ToolDescription(msgspec.Struct, frozen=True, dict=True):
    """One kind. ``summary`` describes a call for people.

    ``fields`` None accepts any. ``needs`` holds groups of fields of which one must be there, ``renamed`` older names of
    fields, ``ignored`` fields that playbooks have but no engine ever read, ``bound`` those that v1 playbooks give among
    the names bound for the call. A field in ``code`` is never a template, one in ``commands`` may have templates of Go
    beside ours.

    ``result`` are the keys of a result that is a mapping, ``yields`` says what any other result is. ``effect`` is None
    where it is not known; a ``guarantee`` of the tool's own comes before what follows from its effect. ``timeout`` is
    in seconds, for a call that names none.

    A kind without an executor compiles with a warning; ``unsupported`` says why it has none and what to use instead. A
    tool that is installed and cannot be used has a ``problem``.
    """

    summary: str = ""
    fields: Mapping[str, ToolField] | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    code: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    ignored: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    result: Mapping[str, ToolField] = msgspec.field(default_factory=dict[str, ToolField])
    yields: str = ""
    effect: Effect | None = None
    guarantee: Guarantee | None = None
    timeout: float | None = None
    has_executor: bool = False
    unsupported: str = ""
    problem: str = ""

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The names of its fields, none where it accepts any."""
        return frozenset(self.fields or ())

    @cached_property
    def accepted(self) -> frozenset[str]:
        """The names of its fields, today's and older ones."""
        return self.field_names | self.renamed.keys()


Tools: TypeAlias = Mapping[str, ToolDescription]
"""Kind -> what it takes."""
