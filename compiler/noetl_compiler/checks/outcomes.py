"""What a condition comes to after a call that went well, or failed, as far as that alone decides it.

The names are those that the machine binds after a call; ``tests/machine/test_visible_names.py`` holds the two against
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from noetl_compiler.graph import Template
from noetl_compiler.templating.truth import ABSENT, PRESENT, Known, Synonyms, truth_of

__all__ = ["BOTH", "WORDS", "Outcome", "holds_after", "is_impossible", "possible_outcomes"]

Outcome: TypeAlias = Literal["ok", "error"]

BOTH: frozenset[Outcome] = frozenset({"ok", "error"})

EVENTS_OF_CALLS: Mapping[Outcome, frozenset[str]] = MappingProxyType(
    {
        "ok": frozenset({"step.done", "call.done", "step.exit", "loop.item"}),
        "error": frozenset({"step.failed", "call.error", "step.exit"}),
    }
)
EVENTS_OF_LOOPS: Mapping[Outcome, frozenset[str]] = MappingProxyType(
    {
        "ok": frozenset({"loop.done", "step.done", "step.exit"}),
        "error": frozenset({"loop.failed", "step.failed", "call.error", "step.exit"}),
    }
)
"""The names that ``event.name`` equals after a call, and after a whole loop."""

SKIPPED = frozenset({"step.skipped", "step.enter"})
"""The same where no call is made."""

WORDS = frozenset({"ok", "error", *SKIPPED}).union(*EVENTS_OF_CALLS.values(), *EVENTS_OF_LOOPS.values())
"""What a status or an event may be."""


def _known(outcome: Outcome, names: frozenset[str]) -> Known:
    envelope = dict.fromkeys(("output.status", "outcome.status", "_outcome.status"), outcome)
    error = PRESENT if outcome == "error" else ABSENT
    return {**envelope, "success": outcome == "ok", "error": error, "event.name": Synonyms(names)}


_AFTER_CALLS: Mapping[Outcome, Known] = {one: _known(one, names) for one, names in EVENTS_OF_CALLS.items()}
_AFTER_LOOPS: Mapping[Outcome, Known] = {one: _known(one, names) for one, names in EVENTS_OF_LOOPS.items()}

_SKIPPED: Known = {"event.name": Synonyms(SKIPPED), **dict.fromkeys(("error", "output", "outcome", "_outcome"), ABSENT)}


def holds_after(when: Template | None, outcome: Outcome, *, of_loop: bool = False) -> bool | None:
    """Whether a condition holds after every such call (True), after none (False), or after some."""
    if when is None:
        return True
    if "{" not in when.source:
        return when.source.strip().lower() in ("true", "yes", "1")
    return truth_of(when.source, (_AFTER_LOOPS if of_loop else _AFTER_CALLS)[outcome])


def possible_outcomes(
    on: Literal["any", "ok", "error"], when: Template | None, *, of_loop: bool = False
) -> frozenset[Outcome]:
    """The outcomes after which a rule about ``on`` may match."""
    asked: frozenset[Outcome] = BOTH if on == "any" else frozenset({on})
    return frozenset(one for one in asked if holds_after(when, one, of_loop=of_loop) is not False)


def is_impossible(when: Template, *, of_loop: bool = False) -> bool:
    """Whether a condition that is no constant holds after no call, and without one neither."""
    if "{" not in when.source or truth_of(when.source, {}) is not None:
        return False
    return not possible_outcomes("any", when, of_loop=of_loop) and truth_of(when.source, _SKIPPED) is False
