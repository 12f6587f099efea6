"""Read the task of one tool call from its fields, which are in a ``tool`` mapping or directly on a step.

Fields are of three kinds: those of the tool (its config, declared in language/tools.py), arguments (``input`` and its
older spellings), and those of the engine (auth, timeout, policy, retry, sinks, set).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.auth import read_auth
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.foreign_code import code_span, foreign_texts, quote_go_templates
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.dialects.idempotency_keys import read_call_idempotency_key
from noetl_compiler.dialects.pagination import read_retry_and_pagination
from noetl_compiler.dialects.policies import read_assigns, read_eval, read_policy
from noetl_compiler.dialects.results import read_output
from noetl_compiler.dialects.retry import RetryRules
from noetl_compiler.dialects.scripts import check_script
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.splices import read_splices
from noetl_compiler.dialects.tool_types import check_commands, check_types, forbid_two_statements
from noetl_compiler.dialects.v1.outcomes import with_on_error, with_outcome
from noetl_compiler.dialects.values import merged_mappings, timeout, without_tojson
from noetl_compiler.dialects.waits import check_wait, read_on_timeout
from noetl_compiler.graph import Output, Sink, Timeout, Value
from noetl_compiler.language import keys
from noetl_compiler.language.constructs.calls import ASSERT, CALL, TASK_SPEC
from noetl_compiler.language.tool_description import ToolDescription, Tools
from noetl_compiler.language.tools import PSEUDO_KINDS, SQL_KINDS, WAIT_KINDS, WORKBOOK_CALL
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.source import lone_expression
from noetl_compiler.syntax import Name, Policy, Task
from noetl_compiler.value_merge import mapping_of

__all__ = [
    "ParseContext",
    "label_of_only_task",
    "read_task",
    "read_tool",
    "read_workbook",
    "spec_of_task",
]

_SPEC_FIELDS = TASK_SPEC.by_name.keys()
_STEP_KEYS = ("loop", "next")
_OTHER_FIELDS = frozenset({"name", "kind", "spec", *CALL.by_name, *keys.INPUT})


class ParseContext(msgspec.Struct, frozen=True):
    """What readers know of the playbook. ``default_root`` is the root of names in ``set`` that have none, ``final`` the
    name of the final step.
    """

    dialect: Dialect
    report: Report
    default_root: str = "ctx"
    final: str = "end"


class _Spec(NamedTuple):
    """The ``spec`` of a task."""

    policy: Policy | None = None
    timeout: Timeout | None = None
    idempotent: bool | None = None
    idempotency_key: Name | None = None
    output: Output | None = None


def read_tool(node: Node | None, step: Name, context: ParseContext) -> tuple[Task, ...]:
    """Read the tasks of a ``tool`` field: a mapping, or a list of mappings with names or labels."""
    if node is None:
        return ()
    if isinstance(node, ScalarNode):
        message = f'"tool" must be a mapping or a list, not "{node.text}"'
        context.report.error(Code.WRONG_TYPE, node.span, message, f"write {{kind: {node.text}}}")
        return ()
    if isinstance(node, SequenceNode):
        if not node.items:
            context.report.error(Code.WRONG_VALUE, node.span, '"tool" is an empty list', "give it a task, or remove it")
        tasks = [_read_item(item, f"task_{index}", context) for index, item in enumerate(node.items)]
    else:
        tasks = [_read_item(node, label_of_only_task(step, context.dialect), context)]
    return tuple(task for task in tasks if task is not None)


def label_of_only_task(step: Name, dialect: Dialect) -> str:
    """Return the label of a step's only task if it has no name; in older dialects, that of the step."""
    return step.text if dialect in ("v1", "legacy") else f"{step.text}_task"


def read_workbook(items: tuple[Node, ...], context: ParseContext) -> tuple[Task, ...]:
    """Read the tasks of the workbook: ``{name, tool: {kind}}``, or ``{name, tool: kind, ...flat}``."""
    tasks = (_read_workbook_task(item, context) for item in items)
    return tuple(task for task in tasks if task is not None)


def _read_workbook_task(node: Node, context: ParseContext) -> Task | None:
    if not isinstance(node, MappingNode):
        context.report.error(Code.WRONG_TYPE, node.span, "a workbook task must be a mapping")
        return None
    fields = Fields(node, context.report, "a workbook task")
    name = fields.required_name("name", "task") or Name("", node.span)
    tool = node.get("tool")
    if isinstance(tool, SequenceNode):
        message = '"tool" of a workbook task must be a mapping, not a list'
        context.report.error(
            Code.WRONG_TYPE, tool.span, message, "write one workbook task for each, and call them in order"
        )
        return Task(name, Name("noop", tool.span), node.span)
    if not isinstance(tool, MappingNode):
        kind = fields.required_name("tool", "kind", "type")
        fields.ignore("accepts", "returns", reason="arguments and results are known only at run time")
        task = read_task(fields, kind, name, context) if kind else None
        if context.dialect == "v1":
            task = next(iter(with_outcome((task,) if task else (), fields)), None)
        fields.check_keys(known_fields(kind, context.report.tools))
        return task
    fields.node_of("tool")
    fields.node_of("desc", "description")
    task = _read_item(tool, name.text, context)
    sinks, expects = read_sinks(fields, context.report, "attempt"), _read_expects(fields)
    fields.check_keys()
    return replace(task, label=name, sinks=task.sinks + sinks, expects=task.expects + expects) if task else None


def _read_item(node: Node, label: str, context: ParseContext) -> Task | None:
    """Read ``{name, kind, ...}``, ``{kind, ...}`` or ``{label: {kind, ...}}``."""
    if not isinstance(node, MappingNode):
        context.report.error(Code.WRONG_TYPE, node.span, "a task must be a mapping", "write {kind: ...}")
        return None
    name = Name(label, node.span)
    if len(node.entries) == 1 and isinstance(body := node.entries[0][1], MappingNode):
        name, node = Name(node.entries[0][0].text, node.entries[0][0].span), body
    fields = ConstructFields(_with_spec_fields(node), context.report, CALL)
    kind = fields.required_name("kind", "type", hint="write kind: http, python, postgres, ...")
    if kind is None:
        return None
    name = fields.name(*(("label",) if kind.text in ("workbook", "secrets") else ("name", "label"))) or name
    task = read_task(fields, kind, name, context)
    if context.dialect == "v1" and task is not None:
        task = with_on_error((task,), fields)[0]
    fields.check_keys(known_fields(kind, context.report.tools) | _SPEC_FIELDS, _SPEC_FIELDS, _STEP_KEYS)
    return task


def known_fields(kind: Name | ScalarNode | None, tools: Tools) -> frozenset[str]:
    """Return the fields that a call of this kind may have, to suggest the nearest one for an unknown field."""
    tool = tools.get(kind.text) if kind else None
    return _OTHER_FIELDS | tool.accepted_fields if tool and tool.fields else _OTHER_FIELDS


def _with_spec_fields(node: MappingNode) -> MappingNode:
    """Move fields of the tool from ``spec`` to the task."""
    spec = node.get("spec")
    if not isinstance(spec, MappingNode):
        return node
    tool_entries = tuple(entry for entry in spec.entries if entry[0].text not in _SPEC_FIELDS)
    if not tool_entries:
        return node
    task_spec = spec_of_task(spec)
    others = ((key, task_spec if item is spec else item) for key, item in node.entries)
    return MappingNode((*tool_entries, *others), node.span)


def spec_of_task(spec: MappingNode) -> MappingNode:
    """Return the spec with only those keys that the table of keys declares for the ``spec`` of a task."""
    return MappingNode(tuple(entry for entry in spec.entries if entry[0].text in _SPEC_FIELDS), spec.span)


def read_task(
    fields: Fields, kind: Name, label: Name, context: ParseContext, *, spec_node: MappingNode | None = None
) -> Task | None:
    """Read a task from its fields, whose keys the caller checks. None if it neither calls nor stores anything.

    ``spec_node`` is its ``spec`` if that is not simply the field of this name.
    """
    spec = _read_spec(spec_node or fields.node_of("spec"), kind, context)
    retry = read_retry_and_pagination(fields, context.report)
    fields.node_of("desc", "description")
    task = Task(
        label,
        kind,
        fields.span,
        auth=read_auth(fields, kind.text),
        timeout=timeout(fields.node_of("timeout", "timeout_seconds"), context.report) or spec.timeout,
        policy=_choose_policy(spec.policy or read_eval(fields, context.default_root), retry, context.report),
        sinks=_read_all_sinks(fields, retry, context.report),
        set=read_assigns(fields, context.default_root),
        idempotent=spec.idempotent,
        idempotency_key=spec.idempotency_key,
        guard=read_guard(fields),
        expects=_read_expects(fields),
        output=read_output(fields, "output", "output_select") or spec.output,
        on_timeout=read_on_timeout(fields, kind),
    )
    if kind.text in PSEUDO_KINDS:
        return replace(task, kind=Name("noop", kind.span)) if task.sinks else None
    if kind.text == "workbook":
        called_name = fields.required_name("name", "task")
        return replace(_with_config(task, fields, WORKBOOK_CALL, context), workbook=called_name)
    return _with_config(task, fields, context.report.tools.get(kind.text, ToolDescription()), context)


def _read_expects(fields: Fields) -> tuple[Name, ...]:
    """Read ``assert: {expects: [...], returns: [...]}``; the name in ``a.b`` and in ``data.a`` is ``a``.

    Names below ``auth`` are left out, as credentials are not bound.
    """
    assertion = ConstructFields.nested(fields, "assert", ASSERT)
    if assertion is None:
        return ()
    nodes = assertion.items("expects")
    assertion.check_keys()
    paths = ((node.text.split("."), node.span) for node in nodes if isinstance(node, ScalarNode))
    return tuple(Name(_expected_name(*path), span) for path, span in paths if path[0] not in keys.AUTH)


def _expected_name(head: str, *tail: str) -> str:
    return tail[0] if tail and head in (*keys.INPUT, "data") else head


def _read_spec(node: Node | None, kind: Name, context: ParseContext) -> _Spec:
    if not isinstance(node, MappingNode):
        return _Spec()
    spec = ConstructFields(node, context.report, TASK_SPEC)
    task_spec = _Spec(
        read_policy(spec, context.default_root),
        spec.timeout(),
        spec.flag("idempotent"),
        read_call_idempotency_key(spec, kind.text),
        read_output(spec, "result"),
    )
    spec.check_keys()
    return task_spec


def _choose_policy(policy: Policy | None, retry: RetryRules | None, report: Report) -> Policy | None:
    if policy and retry:
        message = '"retry" and a policy both decide what follows a call'
        report.error(Code.CONFLICTING_FIELDS, retry.policy.span, message, "write the retry as a rule of the policy")
    return policy or (retry.policy if retry else None)


def _read_all_sinks(fields: Fields, retry: RetryRules | None, report: Report) -> tuple[Sink, ...]:
    """Read the sinks. A sink stores the result of each call, that is, each page; if there is one for single pages, the
    others store the combined result.
    """
    page_sinks = retry.page_sinks if retry else ()
    return page_sinks + read_sinks(fields, report, "task" if page_sinks else "attempt")


def _read_input(fields: Fields, tool: ToolDescription) -> Value:
    """Read the arguments of the call: ``input`` and its older spellings, except those that are fields of the tool."""
    return merged_mappings(fields, [key for key in (*keys.LOOSE_INPUT, *keys.INPUT) if key not in tool.field_names])


def _with_config(task: Task, fields: Fields, tool: ToolDescription, context: ParseContext) -> Task:
    """Return the task with its arguments, and with its config: the fields of the tool under their canonical names. Code
    in them is not a template.
    """
    arguments = _read_input(fields, tool)
    if task.kind.text == "python" and context.dialect != "v10" and isinstance(arguments.data, dict):
        arguments = without_tojson(arguments)
    fields.ignore(*sorted(tool.ignored_fields), reason="the tool does not use it")
    allowed_keys = None if tool.fields is None else tool.accepted_fields
    canonical_entries = tuple((_canonical_key(key, tool), node) for key, node in fields.take_remaining(allowed_keys))
    entries = tuple(
        (key, quote_go_templates(node) if key.text in tool.command_fields else node) for key, node in canonical_entries
    )
    check_types(entries, tool, fields.report)
    forbid_two_statements(entries, tool, fields.report)
    check_commands(entries, tool, fields.report)
    if task.kind.text in WAIT_KINDS:
        check_wait(entries, fields)
    for key, node in entries:
        if key.text == "script":
            check_script(node, fields.report)
    names = {key.text for key, node in entries if not _is_null(node)} | _bound_fields(tool, arguments, context)
    for group in tool.needs:
        if names.isdisjoint(group):
            fields.report_missing(*group)
    code = {
        f"/{key.text}" for key, node in entries if key.text in tool.code_fields and not _is_rendered_code(node, context)
    }
    config = value_of(MappingNode(entries, fields.span), literal_pointers=code)
    texts = foreign_texts(task.kind.text, canonical_entries)
    task = replace(task, input=arguments, config=config, texts=texts)
    if task.kind.text == "python":
        task = replace(task, splices=read_splices(texts, fields.report))
    elif task.kind.text not in SQL_KINDS or len(texts) != 1:
        return task
    return replace(task, code=code_span(texts, fields.report.source))


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _bound_fields(tool: ToolDescription, arguments: Value, context: ParseContext) -> frozenset[str]:
    return tool.bound_fields & mapping_of(arguments).keys() if context.dialect == "v1" else frozenset()


def _canonical_key(key: ScalarNode, tool: ToolDescription) -> ScalarNode:
    name = tool.renamed_fields.get(key.text, key.text)
    return ScalarNode(name, name, key.span, key.style)


def _is_rendered_code(code: Node, context: ParseContext) -> bool:
    """Whether the code is a single template, which only dialects before v10 allow."""
    return context.dialect != "v10" and isinstance(code, ScalarNode) and lone_expression(code.text) is not None
