"""A tool call in history: its input, and the times of its activity at the server. Shapes: machine/call.py."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from noetl_temporal.mirror.payloads import Json, as_mapping
from noetl_temporal.mirror.retry_config import REPEATS, config_of_rules
from noetl_temporal.mirror.run_state import RunState

__all__ = ["ActivityTimes", "Call"]

_NAME = re.compile(r"[\w./-]{1,100}")
"""The name of a credential; other values are not logged."""

_ITERATION_IDS = ("step_run_id", "loop_id", "iteration", "iteration_id")


class ActivityTimes(msgspec.Struct, frozen=True):
    """The times of an activity at the server, in milliseconds since the Unix epoch. ``started`` is None if no worker
    started it. ``attempt`` and ``worker`` are those of its last attempt.
    """

    scheduled: int
    started: int | None
    closed: int
    attempt: int
    worker: str

    def clamp(self, worker_time: int) -> int:
        """Return a worker's time, moved between schedule and end if its clock was wrong."""
        return min(max(worker_time, self.scheduled), self.closed)


class Call:
    """A ToolCall in JSON, and the fields that all its rows share. ``state`` is that of the run that made the call."""

    def __init__(self, call: dict[str, Json], state: RunState) -> None:
        self.json = call
        self.task: str = call["task"]
        self.kind: str = call["kind"]
        self.parent: int = call["event_id"]
        self.page: int | None = call.get("page")
        self.rules: list[dict[str, Json]] = call.get("rules") or []
        self.is_store = call.get("outcome_to_store") is not None
        self.retry_config: Json = state.retry_configs.get(f"{call['step']}/{self.task}") or config_of_rules(self.rules)
        self._loop_id, self._loop_step_run_id = state.loop_id, state.loop_step_run_id
        self._start = state.open_rows.get(self.parent)

    @property
    def sequence(self) -> str:
        """The id that the pages of one task share: that of the call without the number at its end."""
        return str(self.json["id"]).rpartition(":")[0]

    @property
    def _step_run(self) -> str:
        """The id of the step run. The ids of calls in a loop over tasks begin with the index of the item instead."""
        run = self.sequence.removesuffix(f":{self.task}")
        return run if "#" in run else self._loop_step_run_id

    def meta(self) -> dict[str, Json]:
        """Return the ids that correlate the rows with the machine's events of the task. In a nested loop, whose items
        run in the workflow of the outer one, only those events have the iteration.
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
        meta = self._start.meta if self._start else {}
        return fields | {name: meta[name] for name in _ITERATION_IDS if name in meta}

    def context(self) -> dict[str, Json]:
        """Return the rendered inputs, for the row of an attempt (whitepaper 7.3)."""
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
        """Return the rule with this index in the task's policy; empty if there is none."""
        return self._first_rule(lambda rule: rule["index"] == index)

    def repeating_rule(self, index: int | None) -> dict[str, Json]:
        """Return the rule that repeats this call: the matching one, else the first that could; empty without one."""
        matching_rule = self.rule(index)
        if matching_rule.get("do") in REPEATS:
            return matching_rule
        return self._first_rule(lambda rule: rule["do"] in REPEATS)

    def _first_rule(self, matches: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
        no_rule: dict[str, Json] = {}
        return next(filter(matches, self.rules), no_rule)


def _credentials_in(auth: Json) -> list[str]:
    """Return the names of the credentials that ``auth`` refers to, which may be logged, unlike secrets."""
    if isinstance(auth, str):
        return [auth] if _NAME.fullmatch(auth) else []
    fields = as_mapping(auth) or {}
    names = [auth for key in ("credential", "key", "name") if isinstance(auth := fields.get(key), str)]
    credentials = [name for value in (*names, *filter(as_mapping, fields.values())) for name in _credentials_in(value)]
    return list(dict.fromkeys(credentials))
