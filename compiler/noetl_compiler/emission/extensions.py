"""What our v10 says beyond upstream's. Each is explained in dev/extensions.md with an example that is tested."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

__all__ = ["Extension", "told"]


class Extension(Enum):
    """A key of ours; its value is the place where it stands."""

    DIALECT = "executor.spec.dialect"
    JOIN = "step.spec.join"
    END_LOOP = "step.spec.end_loop"
    RETURNS = "step.spec.returns"
    LOOP_SINK = "step.spec.sink"
    ENTER = "step.spec.enter"
    WHERE = "loop.where"
    ORDER_BY = "loop.order_by"
    LIMIT = "loop.limit"
    CHUNK_SIZE = "loop.spec.chunk_size"
    ON_ERROR = "loop.spec.on_error"
    LABEL = "tool.label"
    SINK = "tool.sink"
    IDEMPOTENT = "tool.spec.idempotent"
    IDEMPOTENCY_KEY = "tool.spec.idempotency_key"
    ASSERT = "tool.assert"
    GUARD = "guard"
    SET_LIST = "set as a list"
    SET_ADD = "set of name[]"
    CIRCUIT = "policy.circuit"
    ON_STATUS = "rule.on_status"
    AGAIN = "rule.then.do: again"
    PATCH = "rule.then.patch"
    COLLECT = "rule.then.collect"
    REBIND = "rule.then.rebind"
    RESULT = "rule.then.result"
    MESSAGE = "rule.then.message"
    MAX_DELAY = "rule.then.max_delay"
    MULTIPLIER = "rule.then.multiplier"
    JITTER = "rule.then.jitter"
    ARC_INPUT = "arc.input"
    ARC_THEN = "arc.then"
    ARC_ON_STATUS = "arc.on_status"


_UNSAID: Mapping[Extension, str] = MappingProxyType(
    {
        Extension.JOIN: "how often a step runs that several ways reach",
        Extension.END_LOOP: "which step ends the steps that a loop repeats",
        Extension.RETURNS: "what a step's name stands for afterwards",
        Extension.LOOP_SINK: "that the results of a loop are stored as a whole",
        Extension.ENTER: "what is set before a step's first task",
        Extension.WHERE: "which items a loop takes",
        Extension.ORDER_BY: "how the items of a loop are sorted",
        Extension.LIMIT: "how many items a loop takes",
        Extension.CHUNK_SIZE: "that a loop takes several items at a time",
        Extension.ON_ERROR: "that a failed iteration ends the loop",
        Extension.LABEL: "the name of a call beside the name of what it calls",
        Extension.SINK: "that a result is stored by the very call that yields it",
        Extension.IDEMPOTENT: "whether a call may be made again when its worker was lost",
        Extension.IDEMPOTENCY_KEY: "that a call sends a key by which the server knows it again",
        Extension.ASSERT: "which names a call expects",
        Extension.GUARD: "in which cases this is done beside the step's own tasks",
        Extension.SET_LIST: "that a name is set twice",
        Extension.SET_ADD: "that a value is added to a list, a number or a mapping",
        Extension.CIRCUIT: "when calls fail at once because those before them did",
        Extension.ON_STATUS: "that a rule is for successes or for failures alone",
        Extension.AGAIN: "that a call is made again after a success",
        Extension.PATCH: "what is other in the next call",
        Extension.COLLECT: "how the results of several calls become one",
        Extension.REBIND: "which names are bound anew for the next call",
        Extension.RESULT: "that a rule gives a call another result",
        Extension.MESSAGE: "why a rule fails a task",
        Extension.MAX_DELAY: "how long a growing delay may become",
        Extension.MULTIPLIER: "by what a delay grows",
        Extension.JITTER: "that a delay varies at random",
        Extension.ARC_INPUT: "what a way binds in the step it leads to",
        Extension.ARC_THEN: "that one choice leads to several steps",
        Extension.ARC_ON_STATUS: "that a way is for successes or for failures alone",
    }
)


def told(extension: Extension, dialect: str) -> str:
    """Why the extension stands in a playbook, for the person who migrates it from that dialect."""
    if extension is Extension.DIALECT:
        return f'names in templates and defaults stay those of the {dialect} dialect: "{extension.value}" says so'
    return f'v10 cannot say {_UNSAID[extension]}: the extension "{extension.value}" does'
