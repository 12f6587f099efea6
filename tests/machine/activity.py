"""A tool's activity in memory: its attempts, its sinks and its rules, as run_tool performs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import AttemptCounts, PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.policy import Decision, allows, decide, failure_of
from noetl_temporal.machine.scope import Chain, call_names, sink_config

from .driver import Answer, report_of

__all__ = ["Activity"]


class Activity:
    """Answers calls with what ``answer`` gives for each attempt; ``stored`` is what the sinks were given."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.stored_configs: list[Any] = []
        self.attempts: list[str] = []

    def __call__(self, call: ToolCall) -> ToolReport:
        attempt = 0
        while True:
            attempt += 1
            self.attempts.append(call.task)
            outcome = report_of(self.answer(call)).outcome
            names = call_names(call.names, call.step, call.kind, outcome, attempt, call.page or 1)
            scope = Chain(call.scope, names) if call.is_guarded else Chain(names, call.scope)
            try:
                decision = self._apply_policy(call, outcome, scope, attempt)
            except TemplateFailure as failure:
                return ToolReport(outcome, rule_failure=failure_of(failure))
            if decision.do != "retry":
                counts = AttemptCounts(used=attempt)
                return ToolReport(outcome, decision.rule, decision.exhausted, (), counts, warnings=decision.warnings)

    def _apply_policy(self, call: ToolCall, outcome: PlainOutcome, scope: Mapping[str, Any], attempt: int) -> Decision:
        if outcome["status"] == "ok":
            allowed_sinks = [sink for sink in call.sinks if allows(sink.guard, "ok", scope)]
            self.stored_configs += [sink_config(sink.config, scope) for sink in allowed_sinks]
        return decide(call.rules or (), outcome["status"], scope, attempt)
