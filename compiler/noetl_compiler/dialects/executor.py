"""``executor``: where a run begins and ends, what a failure means for it, and what holds for every call in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.policies import read_failure
from noetl_compiler.dialects.spec_defaults import read_call_defaults, total_of
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import timeout
from noetl_compiler.graph import Timeout
from noetl_compiler.language.tools import KINDS
from noetl_compiler.language.words import DIALECTS, BranchFailure, Dialect
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.syntax import NO_DEFAULTS, CallDefaults, Name

__all__ = ["PROFILES", "Executor", "read_executor"]

PROFILES: Mapping[str, str] = MappingProxyType({name: name for name in ("auto", "local", "distributed")})
"""Where a playbook may say that it runs; all of them mean where a worker is free."""

_STORAGE = "results are kept inline or by reference as their size demands"


@dataclass(frozen=True, slots=True)
class Executor:
    """What the executor says of the playbook. ``dialect`` is that which it was migrated from."""

    entry: Name | None = None
    final: Name | None = None
    no_next_is_error: bool = False
    failure: BranchFailure | None = None
    timeout: Timeout | None = None
    dialect: Dialect | None = None
    defaults: CallDefaults = NO_DEFAULTS


def read_executor(root: Fields, around: ParseContext) -> Executor:
    """The executor of a document."""
    executor = root.fields("executor", "the executor")
    if executor is None:
        return Executor()
    executor.choice("profile", PROFILES)
    executor.text("version")
    _check_required(executor)
    spec = executor.fields("spec", "the executor's spec")
    executor.close()
    return _read_spec(spec, around) if spec else Executor()


def _check_required(executor: Fields) -> None:
    """``requires: {tools, features}``: a tool that nobody knows is told before it is missed."""
    required = executor.fields("requires", "what the executor requires")
    if required is None:
        return
    required.items("features")
    for tool in required.items("tools"):
        if isinstance(tool, ScalarNode) and tool.text not in KINDS:
            message = f'there is no tool "{tool.text}" that could be required'
            executor.report.warning(Code.UNKNOWN_TOOL, tool.span, message, nearest(tool.text, KINDS))
    required.close()


def _read_spec(spec: Fields, around: ParseContext) -> Executor:
    policy = spec.fields("policy", "the executor's policy") or Fields(MappingNode((), spec.span), around.report, "")
    limit = timeout(spec.node_of("timeout"), around.report)
    found = Executor(
        spec.name("entry_step"),
        spec.name("final_step"),
        spec.flag("no_next_is_error") or False,
        read_failure(policy),
        total_of(limit),
        _read_dialect(spec, around),
        read_call_defaults(spec, policy, limit, "ctx"),
    )
    policy.ignore("results", "limits", why=_STORAGE)
    policy.close()
    spec.close()
    return found


def _read_dialect(spec: Fields, around: ParseContext) -> Dialect | None:
    """Whose names and defaults count in a playbook that has been given the form of v10 (dev/decisions/0012)."""
    if around.dialect == "v10":
        return spec.choice("dialect", DIALECTS)
    spec.ignore("dialect", why="a playbook in the form of its own dialect is read as that")
    return None
