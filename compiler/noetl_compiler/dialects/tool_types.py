"""Check the fields of a tool against the types of its description, and for conflicts. A template has any type."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean
from noetl_compiler.dialects.fields import kind_of
from noetl_compiler.language.quantities import FALSE_WORDS, TRUE_WORDS
from noetl_compiler.language.tool_description import ToolDescription, ToolField
from noetl_compiler.language.tools import SQL_FIELDS
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report

__all__ = ["check_commands", "check_types", "forbid_two_statements"]

_TYPE_PHRASES = {
    "text": "a string",
    "number": "a number",
    "flag": "true or false",
    "mapping": "a mapping",
    "list": "a list",
}
_QUOTE_HINT = 'quote it as a whole, or write it in a block ("- |"): in YAML, ": " makes a mapping of it'
_FLAGS = (TRUE_WORDS | FALSE_WORDS) - {"0", "1"}


def check_types(entries: Iterable[tuple[ScalarNode, Node]], tool: ToolDescription, report: Report) -> None:
    """Report NT103 and NT106 for the fields of one call."""
    for key, node in entries:
        field = (tool.fields or {}).get(key.text)
        if field is None or (isinstance(node, ScalarNode) and (node.value is None or node.template_span)):
            continue
        original_key = _key_as_written(key, report)
        if field.choices and isinstance(node, ScalarNode):
            _check_choice(original_key, node, field, report)
        elif field.types and not any(_has_type(node, type_name) for type_name in field.types):
            expected = " or ".join(_TYPE_PHRASES[type_name] for type_name in field.types)
            report.error(Code.WRONG_TYPE, node.span, f'"{original_key}" must be {expected}, not {kind_of(node)}')


def forbid_two_statements(entries: Iterable[tuple[ScalarNode, Node]], tool: ToolDescription, report: Report) -> None:
    """Report NT109 for SQL in more than one field: a run would execute all of them in order."""
    if tool.field_names >= SQL_FIELDS:
        keys = [key for key, node in entries if key.text in SQL_FIELDS and not _is_empty(node)]
        _forbid_two(keys, "SQL", "run both", report)


def check_commands(entries: Iterable[tuple[ScalarNode, Node]], tool: ToolDescription, report: Report) -> None:
    """Report NT109 for commands in more than one field, NT103 for a command in a list that is not a string."""
    commands = [(key, node) for key, node in entries if key.text in tool.command_fields]
    _forbid_two([key for key, _ in commands], "commands", "run one of them alone", report)
    for _, node in commands:
        for item in node.items if isinstance(node, SequenceNode) else ():
            if not isinstance(item, ScalarNode):
                hint = _QUOTE_HINT if isinstance(item, MappingNode) else "write it as one string"
                report.error(Code.WRONG_TYPE, item.span, f"a command must be a string, not {kind_of(item)}", hint)


def _forbid_two(keys: list[ScalarNode], subject: str, outcome: str, report: Report) -> None:
    for key in keys[1:]:
        first = _key_as_written(keys[0], report)
        related = (Related(keys[0].span, f'"{first}" is here'),)
        message = f'the task has {subject} in "{first}" and in "{_key_as_written(key, report)}", and would {outcome}'
        report.error(Code.CONFLICTING_FIELDS, key.span, message, "keep one of them, or write a list", related)


def _key_as_written(key: ScalarNode, report: Report) -> str:
    """Return the key as written in the playbook, which may be an older synonym."""
    return report.source.slice(key.span).strip("'\"") or key.text


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and not node.text.strip()


def _check_choice(original_key: str, node: ScalarNode, field: ToolField, report: Report) -> None:
    """Check a choice; choices in capitals are case-insensitive."""
    word = node.text.upper() if field.ignores_case else node.text
    if word not in field.choices:
        hint = did_you_mean(word, field.choices) or f"expected one of {', '.join(field.choices)}"
        report.error(Code.WRONG_VALUE, node.span, f'invalid value "{node.text}" for "{original_key}"', hint)


def _has_type(node: Node, expected: str) -> bool:
    match expected:
        case "mapping":
            return isinstance(node, MappingNode)
        case "list":
            return isinstance(node, SequenceNode)
        case "flag":
            return isinstance(node, ScalarNode) and (isinstance(node.value, bool) or node.text.lower() in _FLAGS)
        case "number":
            return isinstance(node, ScalarNode) and _is_numeral(node)
        case _:
            return isinstance(node, ScalarNode) and isinstance(node.value, str)


def _is_numeral(node: ScalarNode) -> bool:
    if isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float) or node.text.strip().replace(".", "", 1).isdecimal()
