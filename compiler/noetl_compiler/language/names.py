"""The names that templates see without the playbook binding them, by the place where they are bound (semantics.md 13).

``noetl_compiler.visible_names`` adds what a playbook binds itself. ``tests/machine/test_visible_names.py`` compares the
tables with what the machine really binds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "ALL_RESULTS",
    "BEFORE",
    "BELOW_EVENT",
    "BELOW_JOB",
    "CLAIM",
    "COUNTS",
    "CREDENTIALS_MODULE",
    "ENDS",
    "EVENT",
    "FRAME_MAX_ROWS",
    "ITERATION",
    "LEASE",
    "OF_SOME_OUTCOMES",
    "OF_THE_CALL",
    "OUTCOME",
    "OUTSIDE",
    "PASSED",
    "PIPELINE",
    "ROW",
    "RUN",
    "SAVED",
    "START",
    "STATUS",
    "VARS_CACHE",
    "VARS_FIELD",
    "VARS_MODULE",
    "WORKLOAD",
    "kept",
    "kept_at",
    "results_name",
]

WORKLOAD = frozenset({"workload", "work"})
"""The names of the workload as a whole."""

OUTSIDE = frozenset({"env", "keychain"})
"""What is not the playbook's: the environment and credentials."""

START = frozenset({"payload", "workload", "execution_id", "job", "now"}) | OUTSIDE
"""When the workload's defaults are rendered."""

RUN = START | WORKLOAD | {"ctx", "vars", "iter", "results"}
"""In every step."""

ITERATION = frozenset({"loop", "_loop", "_index", "loop_index"})
"""In the body of a loop, beside the element's own name."""

COUNTS = frozenset({"index", "index0", "count", "size", "length", "first", "last"})
"""Below ``iter`` in the body of a loop; each also with a leading underscore."""

PIPELINE = frozenset({"_task", "_prev"})
"""In a task of a step, beside the labels of the tasks before it."""

BEFORE = frozenset({"output", "outcome"})
"""In a task after another: the outcome of that."""

OF_THE_CALL: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("output", "outcome", "_outcome"), "the outcome of the call"),
        **dict.fromkeys(("result", "data", "this"), "the result of the call"),
        "response": "the response to the call",
    }
)
"""Of OUTCOME, those that a step's own name also refers to."""

OUTCOME: Mapping[str, str] = MappingProxyType(
    {
        **OF_THE_CALL,
        "success": "whether the call succeeded",
        **dict.fromkeys(("error", "last_error"), "the error of the call"),
        "status_code": "the status code of the response",
        **dict.fromkeys(("attempt", "_attempt"), "the number of the attempt"),
        **dict.fromkeys(("page", "iteration"), "the number of the page"),
        "_retry": "the count of the pages",
    }
)
"""After a call, with what they are: in rules, in sinks, in what a task or step sets, in routes."""

EVENT = frozenset({"event"})
"""On entering a step and in routes, in the case dialect in every rule."""

STATUS = EVENT | BEFORE | {"_outcome", "error", "last_error"}
"""Those that a condition asks for the status of a call by."""

ENDS = frozenset({"steps", "failures"})
"""In the final step, behind all names of the playbook: the status of each step, and the failures."""

SAVED = frozenset({"count"})
"""Where the results of a loop as a whole are stored (lowering/sinks.py)."""

FRAME_MAX_ROWS = "__frame_max_rows"
"""In the claim of a cursor: how many rows it may take."""

LEASE = "lease"
"""In a loop over a cursor: the ``token`` and the ``seconds`` of a claimer's lease."""

ROW = "row"
"""In the statements of a cursor: the claimed row. In the mapping of a sink: the row of the data."""

CLAIM = frozenset({FRAME_MAX_ROWS, LEASE, ROW, "output"})
"""In the statements of a cursor."""

BELOW_EVENT = frozenset({"name", "type", "step", "payload"})
"""Below ``event``."""

BELOW_JOB = frozenset({"id", "uuid", "execution_id"})
"""Below ``job``."""

OF_SOME_OUTCOMES = frozenset({"error", "last_error", "status_code"})
"""Those of OUTCOME that only some outcomes bind. Playbooks read them without asking whether they are there."""

PASSED = "ctx._passed."
"""Then a step: the names that the route taken to it passes. Lowered playbooks keep it apart from what authors set."""

ALL_RESULTS = "loop_results"
"""The results of the iterations of a loop over steps, at its end, by a name that is no loop's own."""


VARS_CACHE, VARS_MODULE, VARS_FIELD = "_vars", "vars_cache", "vars"
"""The values that a run has set in ctx and vars; the module of older NoETL that reads them; the field of the config in
which a python task that imports the module receives them."""

CREDENTIALS_MODULE = "fetch_credential"
"""In code that asks older NoETL for a credential."""


def results_name(loop: str) -> str:
    """The same by the loop's own name."""
    return re.sub(r"\W", "_", loop) + "_results"


def kept_at(root: str, step: str) -> str:
    """Where something is kept for a step, below PASSED: ``ctx._passed.fetch_page``."""
    return root + re.sub(r"\W", "_", step)


def kept(root: str, step: str) -> str:
    """The expression that reads the kept values; an empty mapping if there are none."""
    place = kept_at(root, step).removeprefix(root)
    return f"(({root.rstrip('.')} | default({{}})).{place} | default({{}}))"
