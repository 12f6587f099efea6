"""A tool call as history has it: its input, and what the server saw of its activity. Shapes: machine/call.py."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from noetl_temporal.mirror.payloads import Json, as_map
from noetl_temporal.mirror.retry_config import REPEATS, config_of_rules
from noetl_temporal.mirror.run_state import RunState

__all__ = ["ActivityTimes", "Call"]

_NAME = re.compile(r"[\w./-]{1,100}")
"""The name of a credential; other values are not logged."""

_OF_THE_ITERATION = ("step_run_id", "loop_id", "iteration", "iteration_id")


class ActivityTimes(msgspec.Struct, frozen=True):
    """What the server saw of an activity, in Unix milliseconds. ``started`` is None when no worker took it."""

    scheduled: int
    started: int | None
    closed: int
    attempt: int
    worker: str

    def within(self, at: int) -> int:
        """The worker's time, kept between schedule and end: a wrong clock cannot put an attempt outside its task."""
        return min(max(at, self.scheduled), self.closed)


class Call:
    """A ToolCall, and what all rows that derive from it share. ``state`` is that of the run that made it."""

    def __init__(self, call: dict[str, Json], state: RunState) -> None:
        self.json = call
        self.task: str = call["task"]
        self.kind: str = call["kind"]
        self.parent: int = call["event_id"]
        self.page: int | None = call.get("page")
        self.rules: list[dict[str, Json]] = call.get("rules") or []
        self.is_store = call.get("store") is not None
        self.retry_config: Json = state.retry_configs.get(f"{call['step']}/{self.task}") or config_of_rules(self.rules)
        self._loop_id, self._loop_run = state.loop_id, state.loop_run
        self._begun = state.open.get(self.parent)

    @property
    def sequence(self) -> str:
        """What the pages of one task have in common: the call's id without its count of executions."""
        return str(self.json["id"]).rpartition(":")[0]

    @property
    def _step_run(self) -> str:
        """The run of the step. Calls of a loop over tasks begin with the index of their item instead."""
        run = self.sequence.removesuffix(f":{self.task}")
        return run if "#" in run else self._loop_run

    def meta(self) -> dict[str, Json]:
        """The correlation ids that the machine's own events of the task have. In a loop within a loop, whose items run
        in the same workflow, only those events have the iteration.
        """
        fields: dict[str, Json] = {"step": self.json["step"], "task_run_id": self.json["id"]}
        if names := _credentials_in(self.json.get("auth")):
            fields["credentials"] = names
        if self._step_run:
            fields["step_run_id"] = self._step_run
        iteration = self.json.get("iteration")
        if self.page is not None:
            fields["page"] = self.page
        if self._loop_id:
            fields["loop_id"] = self._loop_id
        if iteration is not None:
            fields |= {"iteration": iteration, "iteration_id": f"{self._loop_id}/{iteration}"}
        meta = self._begun.meta if self._begun else {}
        return fields | {name: meta[name] for name in _OF_THE_ITERATION if name in meta}

    def context(self) -> dict[str, Json]:
        """The rendered inputs, for the record of an attempt (whitepaper 7.3)."""
        json = self.json
        context = {
            "step": json["step"],
            "task": json["task"],
            "input": json.get("input"),
            "config": json.get("config"),
            "retry_config": self.retry_config,
        }
        return {name: value for name, value in context.items() if value}

    def rule(self, index: int | None) -> dict[str, Json]:
        """The rule with that index in the task's policy; empty when there is none."""
        return self._first(lambda rule: rule["index"] == index)

    def repeating(self, index: int | None) -> dict[str, Json]:
        """The rule that repeats this call: the one that matched, else the first that could; empty without any."""
        matched = self.rule(index)
        if matched.get("do") in REPEATS:
            return matched
        return self._first(lambda rule: rule["do"] in REPEATS)

    def _first(self, test: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        return next(filter(test, self.rules), fields)


def _credentials_in(auth: Json) -> list[str]:
    """The names of the credentials that ``auth`` refers to, which are the reference to a secret that a log may have."""
    if isinstance(auth, str):
        return [auth] if _NAME.fullmatch(auth) else []
    fields = as_map(auth) or {}
    own = [auth for key in ("credential", "key", "name") if isinstance(auth := fields.get(key), str)]
    credentials = [name for value in (*own, *filter(as_map, fields.values())) for name in _credentials_in(value)]
    return list(dict.fromkeys(credentials))
