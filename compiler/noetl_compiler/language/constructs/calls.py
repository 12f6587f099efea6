"""Calls of tools: the keys of every call, in addition to the fields of its tool (language/tools.py)."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language import keys
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.results import OUTPUT, OUTPUT_SELECT, RESULT
from noetl_compiler.language.constructs.routes import SET
from noetl_compiler.language.constructs.sinks import GUARD_KEY, sink_and_save
from noetl_compiler.language.constructs.steps import DESC
from noetl_compiler.language.value_types import TIMEOUT, Either, ListOf, Nested, Plain

__all__ = [
    "ASSERT",
    "ASSERT_KEY",
    "CALL",
    "CALLS",
    "INPUT",
    "LABEL",
    "NAME",
    "SETTINGS",
    "TASK",
    "TASK_SPEC",
    "TIMEOUTS",
    "WORKBOOK_TASK",
]

ASSERT_KEY = Key(
    "assert",
    "The names that the call expects to be bound.",
    Nested("assert"),
    extension=Extension("tool.assert", "which names a call expects"),
    verbatim=True,
)

INPUT = Key(
    "input",
    "Names and values for the call, which its templates see: also variables of Python code, environment variables of "
    "commands, the request of a called playbook.",
    Plain.NAMES,
    older=(*keys.INPUT[1:], *keys.LOOSE_INPUT),
    default={},
)
"""Names bound for a call. An older name that is a field of the tool means that field instead."""

_COMMON_KEYS = (
    DESC,
    Key(
        "auth",
        "The name of the credential to call with, or several by name.",
        Either((Plain.TEXT, Plain.MAPPING)),
        older=keys.AUTH[1:],
    ),
    Key(
        "timeout",
        "How long the call may take: seconds, or a string with a unit.",
        TIMEOUT,
        older=("timeout_seconds",),
    ),
    OUTPUT,
    OUTPUT_SELECT,
    *sink_and_save(
        "Where the result is stored, in the same call.",
        extension=Extension("tool.sink", "that a result is stored by the call that produced it"),
    ),
    GUARD_KEY,
    *SET,
)
_LAST_KEYS = (
    Key("retry", 'When to call again; in v10, write rules of "spec.policy".', Nested("retry")),
    Key("eval", 'What follows the call; write rules of "spec.policy" instead.', Nested("eval"), deprecated=True),
    ASSERT_KEY,
)

CALL = Construct(
    "call",
    "a task",
    "Keys of every call, in addition to the fields of its tool.",
    (*_COMMON_KEYS, *_LAST_KEYS),
    open=True,
)

LABEL = Key(
    "label",
    "The name of this task, for jumps, results and messages.",
    Plain.NAME,
    extension=Extension("tool.label", "a name for the call other than that of the called task"),
)
"""The name of a task whose tool has a name of its own."""

NAME = replace(LABEL, name="name", older=("label",), restored=True, extension=None)
SETTINGS = Key("spec", "What follows the call, and how long it may take: policy, timeout.", Nested("task_spec"))

TASK = Construct(
    "task",
    "a task",
    "One call of a tool.",
    (
        replace(NAME, older=()),
        LABEL,
        INPUT,
        *_COMMON_KEYS,
        SETTINGS,
        *_LAST_KEYS,
    ),
    open=True,
)
"""A task in canonical form, whatever its tool."""

WORKBOOK_TASK = Construct(
    "workbook_task",
    "a workbook task",
    "A task with a name.",
    (
        Key("name", "The name by which steps run this task.", Plain.NAME, older=("task",)),
        DESC,
        Key("tool", "The call of a tool.", Nested("tool"), required=True),
    ),
)
"""A task of the workbook in canonical form."""

TASK_SPEC = Construct(
    "task_spec",
    "the spec of a task",
    "What follows the call, and how long it may take.",
    (
        Key("policy", "What follows the call: rules that retry, jump, break, fail or continue.", Nested("policy")),
        Key("timeout", "How long the call may take: seconds, or a string with a unit.", TIMEOUT),
        Key(
            "idempotent",
            "False: the call must not be repeated if its worker is lost.",
            Plain.FLAG,
            extension=Extension("tool.spec.idempotent", "whether a call may be repeated if its worker is lost"),
        ),
        Key(
            "idempotency_key",
            "The header in which an http call sends its key: all attempts of a call send the same key, and each "
            "call another one.",
            Plain.HEADER,
            extension=Extension("tool.spec.idempotency_key", "that a call sends an idempotency key"),
        ),
        RESULT,
    ),
    open=True,
)

ASSERT = Construct(
    "assert",
    "an assert",
    "The names that the call expects to be bound.",
    (
        Key("expects", "The names that the call expects to be bound.", ListOf(Plain.TEXT)),
        without_effect("returns", "results are known only at run time"),
    ),
)

TIMEOUTS = Construct(
    "timeout",
    "a timeout",
    "How long the parts of a call may take.",
    (
        Key("connect", "How long opening the connection may take.", Plain.SECONDS),
        Key("read", "How long the server may be silent.", Plain.SECONDS),
        Key("total", "How long the whole call may take.", Plain.SECONDS),
    ),
)

CALLS = (CALL, TASK_SPEC, ASSERT, TIMEOUTS)
"""The constructs of a call, apart from the task itself."""
