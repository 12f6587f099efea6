"""How often a call takes effect and how often its rows are stored, whatever dies meanwhile, and why.

Derived from what the tool tables say of a kind and what the task says of its call; semantics.md 21 to 26a has the
rules, dev/decisions/0017 the ledger that makes an effect happen once. A pure function of the graph, for people: nothing
runs by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from noetl_compiler.conditions import bare, read_condition
from noetl_compiler.graph import Graph, Json, Sink, Step, Task
from noetl_compiler.language.scripts import code_in
from noetl_compiler.language.sinks import CALLS, KEY_HEADER, STORES
from noetl_compiler.language.tool_description import Guarantee, ToolDescription, Tools
from noetl_compiler.language.tools import IDEMPOTENT_METHODS, KINDS, SAFE_METHODS, SQL_COMMANDS, sends_headers
from noetl_compiler.language.transfers import target_of
from noetl_compiler.sql_effects import sql_effect

__all__ = ["guarantees_json", "name_of", "of_call", "of_rows", "tasks_of"]

_NOT_REPEATED = "not repeated when a worker is lost: it fails with kind unknown_outcome"
_NO_LEDGER = "at least once for a role that may not use the ledger"
_KEYS = {"http": f", with the same {KEY_HEADER}", "python": ", with the same idempotency_key"}


def of_call(task: Task, tools: Tools = KINDS) -> Guarantee | None:
    """How often a call takes effect. None for one that changes nothing, and for a kind that nothing runs here."""
    tool = tools.get(task.kind, ToolDescription())
    if tool.guarantee is not None:
        return _at_most_once(task) or tool.guarantee
    match tool.effect:
        case "request":
            return _of_request(task)
        case "code" | "service":
            return _at_most_once(task) or Guarantee("at least once", f"repeated when a worker is lost {_until(task)}")
        case "transaction":
            return _of_sql(task)
        case "rows":
            return _of_transfer(task)
        case "run":
            return _of_run(task)
        case _:
            return None


def _of_request(task: Task) -> Guarantee:
    method, kept = _method(task), _at_most_once(task)
    if kept is not None and kept.word == "at most once":
        return kept
    if method in SAFE_METHODS:
        return Guarantee("at least once", f"a {method} changes nothing on the server, so repeating it does no harm")
    if task.idempotency_key is not None:
        key = task.idempotency_key
        return Guarantee("exactly once", f"if the server honours {key}, which is the same in all attempts of the call")
    if method in IDEMPOTENT_METHODS:
        return Guarantee("at least once", f"repeating a {method} has no further effect")
    if kept is not None:
        return kept
    retried = ", or by its policy after an error" if _retries_errors(task) else ""
    return Guarantee("at least once", f"repeated when a worker is lost {_until(task)}{retried}")


def _of_run(task: Task) -> Guarantee:
    retried = "; its policy starts another after an error" if _retries_errors(task) else ""
    if _config(task).get("wait") is False:
        return Guarantee("exactly once", f"one run is started, whose calls have their own guarantees{retried}")
    if not task.idempotent and not retried:
        return Guarantee(
            "at most once", "not started again after a reset of its caller: it fails with kind unknown_outcome"
        )
    repeated = "started again after a reset of its caller, as the same execution"
    return Guarantee("at least once", f"{repeated}, whose calls keep their guarantees{retried}")


def _of_transfer(task: Task) -> Guarantee:
    kind = target_of(_config(task))
    if kind in STORES:
        caveat = f"; {_NO_LEDGER}" if kind == "postgres" else ""
        return Guarantee("exactly once", f"the rows and the outcome of the call are committed together{caveat}")
    return _at_most_once(task) or Guarantee(
        "at least once", f"a batch is sent again when its worker is lost{_KEYS['http']}"
    )


def _of_sql(task: Task) -> Guarantee:
    effect = sql_effect(task.kind, _sql(task))
    if effect.kind == "reads":
        return Guarantee("at least once", "it only reads, so repeating it does no harm")
    if effect.kind == "commits" and not task.idempotent:
        return Guarantee("at most once", f"{_NOT_REPEATED}, unless the ledger has its outcome")
    if effect.kind == "commits":
        caveat = f"; {_NO_LEDGER}" if task.kind == "postgres" else ""
        return Guarantee("exactly once", f"if it writes, its transaction stores the outcome in the ledger{caveat}")
    if found := _at_most_once(task):
        return found
    if effect.kind == "outside":
        return Guarantee(
            "at least once", f"{effect.statement} is not rolled back with a transaction, so it may run twice"
        )
    return Guarantee("at least once", "whether its SQL stays in one transaction is known only at run time")


def _at_most_once(task: Task) -> Guarantee | None:
    """The guarantee of a call with ``idempotent: false``, else None. Its policy may still repeat it after an error."""
    if task.idempotent:
        return None
    if _retries_errors(task) and task.idempotency_key is None:
        why = "its policy retries errors, and a call may fail after it has taken effect"
        return Guarantee("at least once", why)
    return Guarantee("at most once", _NOT_REPEATED)


def _retries_errors(task: Task) -> bool:
    rules = task.policy.rules if task.policy else ()
    return any(rule.do == "retry" and read_condition(rule.when, rule.on).on != "ok" for rule in rules)


def _until(task: Task) -> str:
    """The point after which a call is no longer repeated."""
    if any(sink.level == "attempt" and _has_ledger(sink) for sink in task.sinks):
        return "before the outcome is stored with its rows"
    return "after the server has answered" if sends_headers(task.kind) else "before it has reported"


def _config(task: Task) -> Mapping[str, Json]:
    found: Json = task.config.data
    return cast("Mapping[str, Json]", found) if isinstance(found, dict) else {}


def _method(task: Task) -> str:
    """The method of a request; a template is not evaluated."""
    return str(_config(task).get("method") or "GET").upper()


def _sql(task: Task) -> Iterator[str]:
    for name, value in _config(task).items():
        texts = cast("list[Json]", value) if isinstance(value, list) else [code_in(value)]
        if name in SQL_COMMANDS or name == "script":
            yield from (text for text in texts if isinstance(text, str))
        elif name.removesuffix("_b64") in SQL_COMMANDS:
            yield "{{ }}"  # it is decoded when it runs


# ---- rows ------------------------------------------------------------------------------------------------------------


def of_rows(sink: Sink) -> Guarantee | None:
    """How often the rows of an outcome are stored. None for a kind that nothing runs here."""
    if sink.kind in CALLS:
        return Guarantee("at least once", f"called again when its call is repeated{_KEYS[sink.kind]}")
    if not _has_ledger(sink):
        return None
    has_caveat, replaces = sink.kind == "postgres", sink.mode == "replace" and not _has_statement(sink)
    why = "the rows of each outcome and their key are committed together"
    if replaces:
        why = f"the table is emptied once per run of the step, and {why}"
    caveat = "a role that may not use the ledger empties it at every call" if replaces else _NO_LEDGER
    return Guarantee("exactly once", f"{why}; {caveat}" if has_caveat else why)


def _has_ledger(sink: Sink) -> bool:
    return sink.kind in KINDS and KINDS[sink.kind].effect == "transaction"


def _has_statement(sink: Sink) -> bool:
    config: Json = sink.config.data
    return isinstance(config, dict) and bool(cast("Mapping[str, Json]", config).get("statement"))


# ---- the whole -------------------------------------------------------------------------------------------------------


def tasks_of(graph: Graph) -> Iterator[tuple[Step, Task]]:
    """Every task with its step, in the order of the graph."""
    for step in graph.steps.values():
        yield from ((step, task) for task in step.tasks)


def name_of(step: Step, task: Task) -> str:
    """``step`` where it has one task, else ``step.task``."""
    return step.name if len(step.tasks) == 1 else f"{step.name}.{task.label}"


def guarantees_json(graph: Graph, tools: Tools = KINDS) -> str:
    """A JSON list with one object a task: ``step, task, kind, line, guarantee, why, rows``. ``rows`` has one a sink:
    ``kind, table, line, guarantee, why``. ``guarantee`` and ``why`` are null as in ``of_call`` and ``of_rows``.
    """
    return json.dumps(
        [_guarantees_of(step, task, tools) for step, task in tasks_of(graph)], indent=2, ensure_ascii=False
    )


def _guarantees_of(step: Step, task: Task, tools: Tools) -> dict[str, Json]:
    return {
        "step": step.name,
        "task": task.label,
        "kind": task.kind,
        "line": task.span.line,
        **_fields(of_call(task, tools)),
        "rows": [
            {"kind": sink.kind, "table": _table(sink), "line": sink.span.line, **_fields(of_rows(sink))}
            for sink in task.sinks
        ],
    }


def _fields(found: Guarantee | None) -> dict[str, Json]:
    return {"guarantee": found.word if found else None, "why": found.why if found else None}


def _table(sink: Sink) -> str | None:
    config: Json = sink.config.data
    table: Json = cast("Mapping[str, Json]", config).get("table") if isinstance(config, dict) else None
    return bare(table) if isinstance(table, str) else None
