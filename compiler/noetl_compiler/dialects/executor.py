"""Read ``executor``: the entry and final step of a run, the effect of a failure, and defaults for all calls."""

from __future__ import annotations

import msgspec

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.holds import read_on_failure
from noetl_compiler.dialects.policies import read_branch_failure
from noetl_compiler.dialects.spec_defaults import only_total, read_call_defaults
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.graph import Timeout
from noetl_compiler.language.constructs.playbook import EXECUTOR, EXECUTOR_POLICY, EXECUTOR_SPEC, REQUIREMENTS
from noetl_compiler.language.words import DIALECTS, BranchFailure, Dialect
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.syntax import NO_DEFAULTS, CallDefaults, Name, OnFailure

__all__ = ["Executor", "read_executor"]


class Executor(msgspec.Struct, frozen=True):
    """The settings of an executor. ``dialect`` is the one that the playbook was migrated from."""

    entry: Name | None = None
    final: Name | None = None
    no_next_is_error: bool = False
    branch_failure: BranchFailure | None = None
    on_failure: OnFailure | None = None
    timeout: Timeout | None = None
    dialect: Dialect | None = None
    defaults: CallDefaults = NO_DEFAULTS


def read_executor(root: Fields, context: ParseContext) -> Executor:
    """Read the executor of a document."""
    executor = ConstructFields.nested(root, "executor", EXECUTOR)
    if executor is None:
        return Executor()
    _check_requirements(executor)
    spec = ConstructFields.nested(executor, "spec", EXECUTOR_SPEC)
    executor.check_keys()
    return _read_spec(spec, context) if spec else Executor()


def _check_requirements(executor: Fields) -> None:
    """Check ``requires: {tools, features}``: unknown tools are reported at compile time."""
    requirements = ConstructFields.nested(executor, "requires", REQUIREMENTS)
    if requirements is None:
        return
    tools = executor.report.tools
    for tool in requirements.items("tools"):
        if isinstance(tool, ScalarNode) and tool.text not in tools:
            message = f'unknown tool kind "{tool.text}"'
            executor.report.warning(Code.UNKNOWN_TOOL, tool.span, message, did_you_mean(tool.text, tools))
    requirements.check_keys()


def _read_spec(spec: ConstructFields, context: ParseContext) -> Executor:
    policy = ConstructFields.nested(spec, "policy", EXECUTOR_POLICY)
    policy = policy or ConstructFields.empty(spec.span, context.report, EXECUTOR_POLICY)
    spec_timeout = spec.timeout()
    executor = Executor(
        spec.name("entry_step"),
        spec.name("final_step"),
        spec.flag("no_next_is_error") or False,
        read_branch_failure(policy),
        read_on_failure(spec),
        only_total(spec_timeout),
        _read_dialect(spec, context),
        read_call_defaults(spec, policy, spec_timeout, "ctx"),
    )
    policy.check_keys()
    spec.check_keys()
    return executor


def _read_dialect(spec: Fields, context: ParseContext) -> Dialect | None:
    """Read the dialect whose names and defaults apply in a playbook migrated to v10 (dev/decisions/0012)."""
    if context.dialect == "v10":
        return spec.choice("dialect", DIALECTS)
    spec.ignore("dialect", reason="only a v10 playbook can name another dialect")
    return None
