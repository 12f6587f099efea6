"""What our v10 says beyond upstream's. Each is explained in dev/extensions.md with an example that is tested."""

from __future__ import annotations

from enum import Enum

__all__ = ["Extension"]


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
    ASSERT = "tool.assert"
    GUARD = "guard"
    SET_LIST = "set as a list"
    SET_ADD = "set of name[]"
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
