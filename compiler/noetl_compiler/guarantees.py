"""Explain how often a call takes effect and its rows are stored, even if a worker or server crashes, and why.

This follows from the description of the tool and from the fields of the task (semantics.md 21 to 26a). The ledger,
which makes an effect happen once, is explained in dev/decisions/0017. The explanations are for people: a run does not
use them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from noetl_compiler.conditions import read_condition, strip_braces
from noetl_compiler.graph import Graph, Json, Sink, Step, Task
from noetl_compiler.language.scripts import code_in
from noetl_compiler.language.sinks import IDEMPOTENCY_HEADER, TOOL_KINDS, TRANSACTIONAL_KINDS
from noetl_compiler.language.tool_description import Guarantee, ToolDescription, Tools
from noetl_compiler.language.tools import IDEMPOTENT_METHODS, KINDS, SAFE_METHODS, SQL_COMMANDS, sends_headers
from noetl_compiler.language.transfers import target_of
from noetl_compiler.sql_effects import sql_effect

__all__ = ["call_guarantee", "guarantees_json", "rows_guarantee", "steps_with_tasks", "task_name"]

_NOT_REPEATED = "not repeated when a worker is lost: it fails with kind unknown_outcome"
_NO_LEDGER = "at least once for a role that may not use the ledger"
_SAME_KEY = {"http": f", with the same {IDEMPOTENCY_HEADER}", "python": ", with the same idempotency_key"}


def call_guarantee(task: Task, tools: Tools = KINDS) -> Guarantee | None:
    """Return how often a call takes effect; None if it changes nothing, and for kinds without an executor."""
    tool = tools.get(task.kind, ToolDescription())
    if tool.guarantee is not None:
        return _non_idempotent_guarantee(task) or tool.guarantee
    match tool.effect:
        case "request":
            return _request_guarantee(task)
        case "code" | "service":
            return _non_idempotent_guarantee(task) or Guarantee(
                "at least once", f"repeated when a worker is lost {_repetition_limit(task)}"
            )
        case "transaction":
            return _sql_guarantee(task)
        case "rows":
            return _transfer_guarantee(task)
        case "run":
            return _run_guarantee(task)
        case _:
            return None


def _request_guarantee(task: Task) -> Guarantee:
    method, non_idempotent = _method_of(task), _non_idempotent_guarantee(task)
    if non_idempotent is not None and non_idempotent.how_often == "at most once":
        return non_idempotent
    if method in SAFE_METHODS:
        return Guarantee("at least once", f"a {method} changes nothing on the server, so repeating it does no harm")
    if task.idempotency_key is not None:
        key = task.idempotency_key
        return Guarantee("exactly once", f"if the server honours {key}, which is the same in all attempts of the call")
    if method in IDEMPOTENT_METHODS:
        return Guarantee("at least once", f"repeating a {method} has no further effect")
    if non_idempotent is not None:
        return non_idempotent
    retry_note = ", or by its policy after an error" if _retries_errors(task) else ""
    return Guarantee("at least once", f"repeated when a worker is lost {_repetition_limit(task)}{retry_note}")


def _run_guarantee(task: Task) -> Guarantee:
    retry_note = "; its policy starts another after an error" if _retries_errors(task) else ""
    if _config_of(task).get("wait") is False:
        return Guarantee("exactly once", f"one run is started, whose calls have their own guarantees{retry_note}")
    if not task.idempotent and not retry_note:
        return Guarantee(
            "at most once", "not started again after a reset of its caller: it fails with kind unknown_outcome"
        )
    restart_note = "started again after a reset of its caller, as the same execution"
    return Guarantee("at least once", f"{restart_note}, whose calls keep their guarantees{retry_note}")


def _transfer_guarantee(task: Task) -> Guarantee:
    kind = target_of(_config_of(task))
    if kind in TRANSACTIONAL_KINDS:
        caveat = f"; {_NO_LEDGER}" if kind == "postgres" else ""
        return Guarantee("exactly once", f"the rows and the outcome of the call are committed together{caveat}")
    return _non_idempotent_guarantee(task) or Guarantee(
        "at least once", f"a batch is sent again when its worker is lost{_SAME_KEY['http']}"
    )


def _sql_guarantee(task: Task) -> Guarantee:
    effect = sql_effect(task.kind, _sql_of(task))
    if effect.kind == "reads":
        return Guarantee("at least once", "it only reads, so repeating it does no harm")
    if effect.kind == "commits" and not task.idempotent:
        return Guarantee("at most once", f"{_NOT_REPEATED}, unless the ledger has its outcome")
    if effect.kind == "commits":
        caveat = f"; {_NO_LEDGER}" if task.kind == "postgres" else ""
        return Guarantee("exactly once", f"if it writes, its transaction stores the outcome in the ledger{caveat}")
    if guarantee := _non_idempotent_guarantee(task):
        return guarantee
    if effect.kind == "outside":
        return Guarantee(
            "at least once", f"{effect.statement} is not rolled back with a transaction, so it may run twice"
        )
    return Guarantee("at least once", "whether its SQL stays in one transaction is known only at run time")


def _non_idempotent_guarantee(task: Task) -> Guarantee | None:
    """Return the guarantee of a call with ``idempotent: false``, else None. Its policy may still repeat it after an
    error.
    """
    if task.idempotent:
        return None
    if _retries_errors(task) and task.idempotency_key is None:
        reason = "its policy retries errors, and a call may fail after it has taken effect"
        return Guarantee("at least once", reason)
    return Guarantee("at most once", _NOT_REPEATED)


def _retries_errors(task: Task) -> bool:
    rules = task.policy.rules if task.policy else ()
    return any(rule.do == "retry" and read_condition(rule.when, rule.on_status).on_status != "ok" for rule in rules)


def _repetition_limit(task: Task) -> str:
    """Describe until when a call is repeated."""
    if any(sink.level == "attempt" and _has_ledger(sink) for sink in task.sinks):
        return "before the outcome is stored with its rows"
    return "after the server has answered" if sends_headers(task.kind) else "before it has reported"


def _config_of(task: Task) -> Mapping[str, Json]:
    config: Json = task.config.data
    return cast("Mapping[str, Json]", config) if isinstance(config, dict) else {}


def _method_of(task: Task) -> str:
    """Return the method of a request; a template is not evaluated."""
    return str(_config_of(task).get("method") or "GET").upper()


def _sql_of(task: Task) -> Iterator[str]:
    for name, value in _config_of(task).items():
        texts = cast("list[Json]", value) if isinstance(value, list) else [code_in(value)]
        if name in SQL_COMMANDS or name == "script":
            yield from (text for text in texts if isinstance(text, str))
        elif name.removesuffix("_b64") in SQL_COMMANDS:
            yield "{{ }}"  # decoded at run time


# ---- rows ------------------------------------------------------------------------------------------------------------


def rows_guarantee(sink: Sink) -> Guarantee | None:
    """Return how often the rows of an outcome are stored; None for kinds without an executor."""
    if sink.kind in TOOL_KINDS:
        return Guarantee("at least once", f"called again when its call is repeated{_SAME_KEY[sink.kind]}")
    if not _has_ledger(sink):
        return None
    has_caveat, replaces = sink.kind == "postgres", sink.mode == "replace" and not _has_statement(sink)
    reason = "the rows of each outcome and their key are committed together"
    if replaces:
        reason = f"the table is emptied once per run of the step, and {reason}"
    caveat = "a role that may not use the ledger empties it at every call" if replaces else _NO_LEDGER
    return Guarantee("exactly once", f"{reason}; {caveat}" if has_caveat else reason)


def _has_ledger(sink: Sink) -> bool:
    return sink.kind in KINDS and KINDS[sink.kind].effect == "transaction"


def _has_statement(sink: Sink) -> bool:
    config: Json = sink.config.data
    return isinstance(config, dict) and bool(cast("Mapping[str, Json]", config).get("statement"))


# ---- all tasks -------------------------------------------------------------------------------------------------------


def steps_with_tasks(graph: Graph) -> Iterator[tuple[Step, Task]]:
    """Yield every task with its step, in the order of the graph."""
    for step in graph.steps.values():
        yield from ((step, task) for task in step.tasks)


def task_name(step: Step, task: Task) -> str:
    """Return ``step`` if the step has one task, else ``step.task``."""
    return step.name if len(step.tasks) == 1 else f"{step.name}.{task.label}"


def guarantees_json(graph: Graph, tools: Tools = KINDS) -> str:
    """Return a JSON list with one object per task: ``step, task, kind, line, guarantee, why, rows``. ``rows`` has one
    object per sink: ``kind, table, line, guarantee, why``. ``guarantee`` and ``why`` are null where ``call_guarantee``
    or ``rows_guarantee`` returns None.
    """
    return json.dumps(
        [_task_json(step, task, tools) for step, task in steps_with_tasks(graph)], indent=2, ensure_ascii=False
    )


def _task_json(step: Step, task: Task, tools: Tools) -> dict[str, Json]:
    return {
        "step": step.name,
        "task": task.label,
        "kind": task.kind,
        "line": task.span.line,
        **_json_fields(call_guarantee(task, tools)),
        "rows": [
            {"kind": sink.kind, "table": _table_of(sink), "line": sink.span.line, **_json_fields(rows_guarantee(sink))}
            for sink in task.sinks
        ],
    }


def _json_fields(guarantee: Guarantee | None) -> dict[str, Json]:
    return {"guarantee": guarantee.how_often if guarantee else None, "why": guarantee.reason if guarantee else None}


def _table_of(sink: Sink) -> str | None:
    config: Json = sink.config.data
    table: Json = cast("Mapping[str, Json]", config).get("table") if isinstance(config, dict) else None
    return strip_braces(table) if isinstance(table, str) else None
