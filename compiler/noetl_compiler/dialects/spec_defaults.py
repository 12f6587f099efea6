"""Merge the defaults that the specs of the executor, the step and the loop have for the calls of a task.

    defaults of the tool < executor.spec < step.spec < loop.spec < task.spec

Each spec takes precedence over those to its left, field by field: mappings are merged, lists are replaced. The worker
applies the defaults of the tool. Any spec may set ``policy`` (rules, on_unmatched, circuit), ``idempotent``,
``idempotency_key``, ``result``, and the parts ``connect`` and ``read`` of ``timeout`` for its calls. The total of a
timeout applies to the playbook, step or loop that declares it; ``policy.defaults`` has the timeout of calls.

A call of a workbook task has two specs, its own and that of the task. Both take precedence over all others.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs
from msgspec.structs import replace

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.idempotency_keys import read_default_idempotency_key
from noetl_compiler.dialects.policies import read_rules
from noetl_compiler.dialects.results import read_output
from noetl_compiler.graph import Output, Timeout
from noetl_compiler.language.constructs.results import CALL_DEFAULTS
from noetl_compiler.language.tools import sends_headers
from noetl_compiler.syntax import NO_DEFAULTS, CallDefaults, Policy, Step, Task
from noetl_compiler.syntax_queries import calls_of
from noetl_compiler.value_merge import overlay

__all__ = ["only_total", "read_call_defaults", "with_defaults"]


def read_call_defaults(
    spec: Fields, policy: Fields | None, spec_timeout: Timeout | None, default_root: str
) -> CallDefaults:
    """Read the defaults of a ``spec`` for its calls. ``spec_timeout`` is the timeout of the spec, whose parts
    ``connect`` and ``read`` apply to the calls. The caller checks the keys.
    """
    rules = read_rules(policy, default_root) if policy else None
    call_timeout = _without_total(spec_timeout)
    if policy:
        call_timeout = _merge_timeouts(call_timeout, _read_default_timeout(policy))
    return CallDefaults(
        rules, call_timeout, spec.flag("idempotent"), read_output(spec, "result"), read_default_idempotency_key(spec)
    )


def only_total(timeout: Timeout | None) -> Timeout | None:
    """Return a timeout with its total alone, which applies to the playbook, step or loop that declares it."""
    return Timeout(total=timeout.total) if timeout and timeout.total else None


def _without_total(timeout: Timeout | None) -> Timeout | None:
    parts = Timeout(connect=timeout.connect, read=timeout.read) if timeout else Timeout()
    return None if parts == Timeout() else parts


def _read_default_timeout(policy: Fields) -> Timeout | None:
    defaults = ConstructFields.nested(policy, "defaults", CALL_DEFAULTS)
    if defaults is None:
        return None
    call_timeout = defaults.timeout()
    defaults.check_keys()
    return call_timeout


def with_defaults(step: Step, workbook: Mapping[str, Task], executor: CallDefaults) -> Step:
    """Return the step with all defaults merged into its tasks. The timeout of its loop becomes that of the step."""
    defaults = _merge(executor, step.defaults)
    if (loop := step.loop) is not None:
        step = replace(step, timeout=loop.timeout or step.timeout)
        defaults = _merge(defaults, loop.defaults)
    if defaults == NO_DEFAULTS:
        return step
    return replace(step, tasks=tuple(_with_defaults(task, workbook, defaults) for task in step.tasks))


def _merge(outer: CallDefaults, inner: CallDefaults) -> CallDefaults:
    return CallDefaults(
        _merge_policies(outer.policy, inner.policy),
        _merge_timeouts(outer.timeout, inner.timeout),
        outer.idempotent if inner.idempotent is None else inner.idempotent,
        _merge_outputs(outer.output, inner.output),
        inner.idempotency_key or outer.idempotency_key,
    )


def _with_defaults(task: Task, workbook: Mapping[str, Task], defaults: CallDefaults) -> Task:
    merged_defaults, calls = defaults, calls_of(task, workbook)
    for call in reversed(calls):
        call_defaults = CallDefaults(call.policy, call.timeout, call.idempotent, call.output, call.idempotency_key)
        merged_defaults = _merge(merged_defaults, call_defaults)
    return replace(
        task,
        policy=merged_defaults.policy,
        timeout=merged_defaults.timeout,
        idempotent=merged_defaults.idempotent,
        output=merged_defaults.output,
        idempotency_key=merged_defaults.idempotency_key if sends_headers(calls[-1].kind.text) else None,
    )


def _merge_policies(outer: Policy | None, inner: Policy | None) -> Policy | None:
    if outer is None or inner is None:
        return inner or outer
    rules = inner if inner.rules else outer
    circuit = inner.circuit or outer.circuit
    return Policy(inner.span, rules.rules, inner.unmatched or outer.unmatched, circuit, rules.retry_clause)


def _merge_timeouts(outer: Timeout | None, inner: Timeout | None) -> Timeout | None:
    if outer is None or inner is None:
        return inner or outer
    return Timeout(inner.total or outer.total, inner.connect or outer.connect, inner.read or outer.read)


def _merge_outputs(outer: Output | None, inner: Output | None) -> Output | None:
    if outer is None or inner is None:
        return inner or outer
    return structs.replace(
        inner,
        select=inner.select or outer.select,
        store=overlay(outer.store, inner.store),
        inline_max_bytes=inner.inline_max_bytes or outer.inline_max_bytes,
        preview_max_bytes=inner.preview_max_bytes or outer.preview_max_bytes,
    )
