"""``case``: rules about the events of a step, and what they do."""

from __future__ import annotations

from noetl_compiler.language import keys
from noetl_compiler.language.constructs.policies import ACTION, COLLECT, RULE
from noetl_compiler.language.constructs.routes import TARGET
from noetl_compiler.language.constructs.steps import STEP_SPEC
from noetl_compiler.language.sinks import EVENT_KINDS, TRANSACTIONAL_KINDS
from noetl_compiler.language.words import BACKOFFS, COLLECT_MODES
from noetl_compiler.schema.calls import DESC, Calls, by_kind
from noetl_compiler.schema.from_table import properties
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.values import (
    CONDITION,
    COUNT,
    FLAG,
    MAPPING,
    NAME,
    NAMES,
    NUMBER,
    SECONDS,
    TEXT,
    any_of,
    described_words,
    has,
    list_of,
    one_or_more,
    ref,
    words,
)

__all__ = ["case_actions"]

_ASSIGNMENTS = any_of(MAPPING, list_of(ref("assignment")))
_ACTIONS = (
    Property("next", "The next step or steps.", ref("case_next")),
    Property("set", "Names to set.", _ASSIGNMENTS),
    Property("vars", "Names to set.", _ASSIGNMENTS),
    Property("result", STEP_SPEC.about_of("returns")),
    Property("fail", "Fails the step, with this message.", any_of(ref("failure"), {"not": MAPPING})),
    Property("skip", "Whether the rest of the step is skipped.", FLAG),
    Property("retry", "Repeats the call, with changed values if there are any.", any_of(ref("repeat"), ref("calls"))),
    Property("call", "Another step to run in addition to the route, or this call again.", ref("another_call")),
    Property("sink", "Where the result is stored.", one_or_more(ref("case_sink")), older=("save",)),
    Property("collect", "Adds a value to a name, or a page to those of repeated calls.", ref("case_collect")),
    *properties(COLLECT[1:]),
    without_effect("log", "the event log records what a run did"),
)

_NAMED_TASK: Schema = {"additionalProperties": ref("named_task")}
_BARE_TASK: Schema = {
    "if": {"propertyNames": {"enum": ["tool", *DESC.names]}},
    "then": {"properties": {"tool": ref("tool")}},
}
_IS_ONLY_THEN: Schema = {"type": "object", "required": ["then"], "maxProperties": 1}
_IS_WRAPPED: Schema = {"type": "object", "required": ["next"], "not": {"required": ["step"]}}
_IS_COLLECTED_VALUE: Schema = {"type": "object", "required": ["from"]}

_ACTIONS_OF_RULES: Models = (
    Model(
        "case_rule",
        "A condition about an event of the step, and what to do when it holds.",
        (
            Property(
                "when",
                'The condition, usually about "event.name", or "else".',
                {**CONDITION, "pattern": rf"{CONDITION['pattern']}|^\s*[Ee]lse\s*$"},
            ),
            Property("then", RULE.about_of("then"), one_or_more(ref("case_action"))),
            Property("else", RULE.about_of("else"), ref("case_otherwise")),
        ),
        needs=(("then", "else"),),
    ),
    Model("plain_action", "What a rule does.", _ACTIONS, open=True, rules=_NAMED_TASK),
    Model(
        "routing_action",
        "What a rule does, and the next step.",
        (
            Property("step", "The next step.", NAME, required=True),
            Property("input", TARGET.about_of("input"), NAMES, older=keys.INPUT[1:]),
            *_ACTIONS,
        ),
        open=True,
        rules=_NAMED_TASK,
    ),
    Model(
        "otherwise_case",
        RULE.about_of("else"),
        (Property("then", RULE.about_of("else"), one_or_more(ref("case_action")), required=True),),
    ),
    Model(
        "named_task",
        "A task of this name.",
        (
            Property("tool", "The call of a tool.", {"type": ["object", "array"]}, required=True),
            DESC,
        ),
        open=True,
        rules=_BARE_TASK,
    ),
    Model(
        "assignment",
        "A name to set.",
        (
            Property("name", "The name to set.", NAME, older=("key",), required=True),
            Property("value", "The value to set it to.", required=True),
        ),
    ),
    Model(
        "failure",
        "The failure of the step.",
        (Property("message", "The message of the failure.", TEXT),),
    ),
    Model(
        "repeat",
        "The same call again.",
        (
            Property("max_attempts", "The maximum number of calls.", COUNT, older=("attempts", "max_iterations")),
            Property(
                "initial_delay",
                "How long to wait before the next call.",
                SECONDS,
                older=("delay", "backoff_seconds"),
            ),
            Property("backoff_multiplier", "The factor by which the delay grows.", NUMBER, older=("multiplier",)),
            Property("backoff", "How the delay grows from call to call.", described_words(BACKOFFS.about)),
            Property("max_delay", ACTION.about_of("max_delay"), SECONDS),
            Property("jitter", "Whether delays are randomised.", FLAG),
            Property("args", "The names that change in the next call.", MAPPING, older=("with", "input")),
            Property("url", "The address of the next call.", older=("endpoint",)),
            Property("method", "The HTTP method of the next call."),
            Property("headers", "The HTTP headers of the next call."),
            Property("params", "The query of the next call."),
            Property("query", "The query of the next call."),
            *(Property(name, "The data that the next call sends.") for name in ("body", "payload", "data", "form")),
        ),
    ),
    Model(
        "collected_value",
        "Adds a value to a name.",
        (
            Property("from", "The value to add: a path or a template.", TEXT, required=True),
            Property("into", "The name to add it to.", NAME, required=True),
            Property(
                "mode",
                'Append the value as one item ("append", the default), append its items ("extend"), or replace what '
                'was there ("replace").',
                words(*COLLECT_MODES),
            ),
        ),
    ),
    Shape("calls", {"type": ["boolean", "integer"]}),
    Shape(
        "case_action", {"type": "object", "if": has("step"), "then": ref("routing_action"), "else": ref("plain_action")}
    ),
    Shape(
        "case_otherwise", {"if": _IS_ONLY_THEN, "then": ref("otherwise_case"), "else": one_or_more(ref("case_action"))}
    ),
    Shape("case_next", {"if": _IS_WRAPPED, "then": {"properties": {"next": ref("case_next")}}, "else": ref("next")}),
    Shape("another_call", {"type": "object", "if": has("step"), "then": ref("target"), "else": ref("repeat")}),
    Shape("case_collect", {"if": _IS_COLLECTED_VALUE, "then": ref("collected_value"), "else": ref("collect")}),
)


def case_actions(calls: Calls) -> Models:
    """Return the models of rules and their actions. A sink whose kind is not a store only runs a tool."""
    run_kinds = sorted(frozenset(calls.kinds.tools) - TRANSACTIONAL_KINDS - EVENT_KINDS)
    sinks = tuple(_run_sink(kind, calls) for kind in run_kinds)
    kind: Schema = {"enum": list(run_kinds)}
    is_run: Schema = {"required": ["tool"], "properties": {"tool": kind}}
    is_nested: Schema = {
        "required": ["tool"],
        "properties": {"tool": {"type": "object", "required": ["kind"], "properties": {"kind": kind}}},
    }
    flat: Schema = {"if": is_run, "then": {"allOf": by_kind(sinks, "tool")}, "else": ref("sink")}
    return (
        *_ACTIONS_OF_RULES,
        *(model for _, model in sinks),
        Shape("case_sink", {"if": is_nested, "then": ref("named_task"), "else": flat}),
    )


def _run_sink(kind: str, calls: Calls) -> tuple[str, Model]:
    kind_property = Property("tool", calls.kinds.tool(kind).summary, {"const": kind}, older=("kind", "type"))
    return kind, calls.flat_call(
        kind, f"{kind}_sink", (kind_property, Property("name", "The name of this task.", NAME, ("label",)))
    )
