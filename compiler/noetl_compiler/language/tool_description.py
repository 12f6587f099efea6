"""The description of a tool kind, as plain data.

Those of NoETL are a table (``tools.py``). An installed tool brings its own: its ToolSpec is converted to a description
(noetl_activities.tool), which callers pass to the compiler in ``tools``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

__all__ = ["EFFECTS", "Effect", "FieldType", "Guarantee", "HowOften", "ToolDescription", "ToolField", "Tools"]

Effect: TypeAlias = Literal["none", "code", "request", "transaction", "rows", "service", "run"]
"""What a call changes outside of the run.

``none``: nothing. ``code``: whatever its code does. ``request``: what a web server does for the request.
``transaction``: SQL, in one transaction with the outcome of the call (semantics.md 26a). ``rows``: rows, stored as a
sink stores them. ``service``: what another kind of server does. ``run``: it starts another run.
"""

EFFECTS: Mapping[Effect, str] = MappingProxyType(
    {
        "none": "A call changes nothing outside, so repeating it does no harm.",
        "code": "A call takes effect at least once: it is repeated when its worker is lost before it has reported.",
        "request": "A call takes effect at least once: it is repeated when its worker is lost before the server has "
        "responded. A server that supports an idempotency_key makes that exactly once.",
        "transaction": "A call takes effect exactly once where its SQL stays in one transaction, which also keeps its "
        "outcome.",
        "rows": "A call takes effect exactly once where a database with a ledger stores the rows: one transaction has "
        "them and the outcome. Elsewhere rows are stored at least once.",
        "service": "A call takes effect at least once: it is repeated when its worker is lost before it has reported.",
        "run": "A call starts one run; after a reset of its caller it starts again, as the same execution. The calls "
        "of that run have their own guarantees.",
    }
)
"""Effect -> how often such a call takes effect, unless the playbook sets it otherwise; for people."""

FieldType: TypeAlias = Literal["text", "number", "flag", "mapping", "list"]

HowOften: TypeAlias = Literal["exactly once", "at least once", "at most once"]


class Guarantee(NamedTuple):
    """How often a call takes effect despite crashes. ``str()`` of it is a line for people."""

    how_often: HowOften
    reason: str

    def __str__(self) -> str:
        return f"{self.how_often}: {self.reason}"


class ToolField(msgspec.Struct, frozen=True):
    """One field of a call or of a result. ``about`` is a sentence for people.

    ``types`` are the types that a value may have, any if empty; ``choices`` the only words it may be. ``default`` is
    the value of an absent field, if it has one. A rare field (``is_rare``) is accepted, but not proposed by editors.
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

    ``fields`` is None if any field is accepted. ``needs`` has groups of fields of which one is required,
    ``renamed_fields`` older names of fields, ``ignored_fields`` those that playbooks have but no engine ever read, and
    ``bound_fields`` those that v1 playbooks may write among the arguments. A field in ``code_fields`` is never a
    template; one in ``command_fields`` may also contain Go templates.

    ``result`` has the keys of a result that is a mapping; ``yields`` describes any other result. ``effect`` is None if
    it is unknown. A ``guarantee`` overrides that of the effect. ``timeout`` is the default, in seconds. ``access`` says
    what a worker lets a call use, and how to allow more.

    A kind without an executor compiles with a warning; ``unsupported`` is the reason and what to use instead.
    ``problem`` is the reason why an installed tool cannot be used.
    """

    summary: str = ""
    fields: Mapping[str, ToolField] | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    code_fields: frozenset[str] = frozenset()
    command_fields: frozenset[str] = frozenset()
    renamed_fields: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    ignored_fields: frozenset[str] = frozenset()
    bound_fields: frozenset[str] = frozenset()
    result: Mapping[str, ToolField] = msgspec.field(default_factory=dict[str, ToolField])
    yields: str = ""
    effect: Effect | None = None
    guarantee: Guarantee | None = None
    timeout: float | None = None
    access: str = ""
    has_executor: bool = False
    unsupported: str = ""
    problem: str = ""

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The names of its fields; empty if it accepts any."""
        return frozenset(self.fields or ())

    @cached_property
    def accepted_fields(self) -> frozenset[str]:
        """The names of its fields, including older ones."""
        return self.field_names | self.renamed_fields.keys()


Tools: TypeAlias = Mapping[str, ToolDescription]
"""Kind -> its description."""
