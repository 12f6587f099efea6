"""The names that a run binds for templates, by where templates see them (semantics.md 13).

``noetl_compiler.visible_names`` adds the names that a playbook binds. ``tests/machine/test_visible_names.py`` compares
the tables with what the machine binds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "ALL_RESULTS",
    "BELOW_EVENT",
    "BELOW_ITER",
    "BELOW_JOB",
    "BELOW_OUTCOME",
    "CALL_NAMES",
    "CREDENTIALS_MODULE",
    "CURSOR_STATEMENT",
    "ENVIRONMENT",
    "ERROR_NAMES",
    "EVENT",
    "FINAL_STEP_NAMES",
    "FRAME_MAX_ROWS",
    "ITERATION",
    "LEASE",
    "LOOP_SINK",
    "OPTIONAL_OUTCOME_NAMES",
    "OUTCOME",
    "PASSED_ROOT",
    "PIPELINE",
    "PREVIOUS_OUTCOME",
    "ROW",
    "RUN",
    "STATUS_NAMES",
    "VARS_CACHE",
    "VARS_FIELD",
    "VARS_MODULE",
    "WORKLOAD",
    "WORKLOAD_DEFAULTS",
    "passed_expression",
    "passed_target",
    "results_name",
]

WORKLOAD = frozenset({"workload", "work"})
"""The names of the workload as a whole."""

ENVIRONMENT = frozenset({"env", "keychain"})
"""Visible everywhere, and not part of the playbook: the environment and the credentials."""

WORKLOAD_DEFAULTS = frozenset({"payload", "workload", "execution_id", "job", "now"}) | ENVIRONMENT
"""Visible in the defaults of the workload."""

RUN = WORKLOAD_DEFAULTS | WORKLOAD | {"ctx", "vars", "iter", "results"}
"""Visible in every step."""

ITERATION = frozenset({"loop", "_loop", "_index", "loop_index"})
"""Visible in the body of a loop, in addition to the element's own name."""

BELOW_ITER = frozenset({"index", "index0", "count", "size", "length", "first", "last"})
"""Below ``iter`` in the body of a loop: the position of the item. Each also has a name with a leading underscore."""

PIPELINE = frozenset({"_task", "_prev"})
"""Visible in a task of a step, in addition to the labels of earlier tasks."""

PREVIOUS_OUTCOME = frozenset({"output", "outcome"})
"""Visible in every task but the first of a step: the outcome of the previous task."""

CALL_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("output", "outcome", "_outcome"), "the outcome of the call"),
        **dict.fromkeys(("result", "data", "this"), "the result of the call"),
        "response": "the response to the call",
    }
)
"""The names in OUTCOME for the call's outcome, result or response."""

OUTCOME: Mapping[str, str] = MappingProxyType(
    {
        **CALL_NAMES,
        "success": "whether the call succeeded",
        **dict.fromkeys(("error", "last_error"), "the error of the call"),
        "status_code": "the status code of the response",
        **dict.fromkeys(("attempt", "_attempt"), "the number of the attempt"),
        **dict.fromkeys(("page", "iteration"), "the number of the page"),
        "_retry": "the count of the pages",
    }
)
"""Visible after a call, in rules, sinks, routes, and the ``set`` of a task or step. Name -> what it means."""

EVENT = frozenset({"event"})
"""Visible when a step is entered and in routes; in the case dialect in every rule."""

STATUS_NAMES = EVENT | PREVIOUS_OUTCOME | {"_outcome", "error", "last_error"}
"""Names by which a condition can test the status of a call."""

FINAL_STEP_NAMES = frozenset({"steps", "failures"})
"""Visible in the final step unless the playbook binds them: the status of each step, and the failures."""

LOOP_SINK = frozenset({"count"})
"""Visible in sinks that store the results of a loop as a whole (lowering/sinks.py)."""

FRAME_MAX_ROWS = "__frame_max_rows"
"""Visible in the claim of a cursor: how many rows it may take."""

LEASE = "lease"
"""Visible in a loop over a cursor: the ``token`` and the ``seconds`` of the claimer's lease."""

ROW = "row"
"""In the statements of a cursor, the claimed row; in the ``mapping`` of a sink, the row of the data."""

CURSOR_STATEMENT = frozenset({FRAME_MAX_ROWS, LEASE, ROW, "output"})
"""Visible in the statements of a cursor."""

BELOW_EVENT = frozenset({"name", "type", "step", "payload"})
"""Below ``event``."""

BELOW_OUTCOME: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "error": frozenset(
            {"kind", "message", "code", "retryable", "status", "retry_after", "wait", "status_code", "type", "error"}
        ),
        "http": frozenset({"status", "headers"}),
        "pg": frozenset({"code", "sqlstate", "position", "line"}),
        "py": frozenset({"exception", "traceback", "line"}),
    }
)
"""Part of an outcome -> the names below it. A tool of a deployment may add others."""

BELOW_JOB = frozenset({"id", "uuid", "execution_id"})
"""Below ``job``."""

ERROR_NAMES = frozenset({"error", "last_error"})
"""Names in OUTCOME that are bound to the error of a failed call."""

OPTIONAL_OUTCOME_NAMES = ERROR_NAMES | {"status_code"}
"""Names in OUTCOME that only some outcomes bind. Playbooks read them without testing whether they are defined."""

PASSED_ROOT = "ctx._passed."
"""The root of the names that routes pass to their target; the name of the target follows. It is separate from the
names that authors set.
"""

ALL_RESULTS = "loop_results"
"""The results of the iterations of a loop over steps, visible in the step that ends it, whatever the loop is called."""


VARS_CACHE = "_vars"
"""The values that a run has set in ctx and vars."""

VARS_MODULE = "vars_cache"
"""The module by which Python code reads these values in older NoETL."""

VARS_FIELD = "vars"
"""The field of its config in which a python task that imports the module receives them."""

CREDENTIALS_MODULE = "fetch_credential"
"""The module by which Python code reads a credential in older NoETL."""


def results_name(loop: str) -> str:
    """Return the name of the results of one loop: ``<loop>_results``."""
    return re.sub(r"\W", "_", loop) + "_results"


def passed_target(step: str) -> str:
    """Return the target that stores the names passed to a step, such as ``ctx._passed.fetch_page``."""
    return PASSED_ROOT + re.sub(r"\W", "_", step)


def passed_expression(step: str) -> str:
    """Return the expression that reads these names; it yields an empty mapping if none were passed."""
    name = passed_target(step).removeprefix(PASSED_ROOT)
    return f"(({PASSED_ROOT.rstrip('.')} | default({{}})).{name} | default({{}}))"
