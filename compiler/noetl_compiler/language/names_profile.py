"""The differences between the dialects in what templates see.

Lowering puts the profile of a playbook's dialect into its graph. A run reads the profile and knows no dialect. What all
dialects share is in ``language/names.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.language.words import Dialect

__all__ = ["PROFILES", "NamesProfile", "OutcomeNames"]

OutcomeNames: TypeAlias = Literal["usual", "step", "call"]
"""What a finished call binds. ``usual``: the names in ``names.OUTCOME``. ``step``: also ``step``, the running step with
its result; the results of other steps are below it. ``call``: also ``event``; all names describe the last call, even if
the step has another result, and ``result`` and ``response`` are the whole result of the call (dev/decisions/0011).
"""


class NamesProfile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What templates see in one dialect; the defaults are those of v10.

    ``task_results``: a result is also bound to the name of its task, and all results are also in ``steps`` and
    ``loop``. ``listed_results``: the result of a loop is the list of its results, without their counts.
    ``result_index``: in the body of a loop the step's own name has the item's index. ``args_over_input``: the args of a
    step override the input of its tasks. ``tolerates_undefined``: an undefined name in a condition is not reported if
    another condition of the same route or rules matched.
    """

    outcome: OutcomeNames = "usual"
    task_results: bool = False
    listed_results: bool = False
    result_index: bool = False
    args_over_input: bool = False
    tolerates_undefined: bool = False


PROFILES: Mapping[Dialect, NamesProfile] = MappingProxyType(
    {
        "v1": NamesProfile(
            outcome="step", task_results=True, listed_results=True, result_index=True, tolerates_undefined=True
        ),
        "legacy": NamesProfile(listed_results=True, result_index=True, tolerates_undefined=True),
        "case": NamesProfile(outcome="call", args_over_input=True, tolerates_undefined=True),
        "v10": NamesProfile(),
    }
)
"""The profile of each dialect."""
