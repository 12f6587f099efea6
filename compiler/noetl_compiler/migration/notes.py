"""Notes for the user about what a migration drops or leaves unchanged."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.migration.context import Note
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.phases import ParsedPlaybook
from noetl_compiler.source import Span
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_arcs_of
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.value_merge import mapping_of

__all__ = ["migration_notes"]

_SUCCESSORS = MappingProxyType(
    {
        "outcome": "output",
        "response": "output.data",
        "error": "output.error",
        "vars": "ctx",
        "work": "workload",
        "_loop": "iter",
        "loop": "iter",
    }
)
"""Names of older dialects in templates, and their names in v10. Both work at run time."""

_MAX_EXCERPT_CHARS = 120
_QUOTED = re.compile('"[^"]*"')


def migration_notes(
    parsed: ParsedPlaybook, root: MappingNode, document: MappingNode, new_diagnostics: Collection[Diagnostic]
) -> Iterator[Note]:
    """Yield the notes about a migrated playbook: ``document``, with ``new_diagnostics``."""
    yield from _resolved_diagnostics(parsed.diagnostics, new_diagnostics)
    yield from _changed_templates(root, document)
    yield from _expanded_anchors(root)
    if parsed.playbook is not None:
        yield from _older_names(root, _defined_names(parsed.playbook))


def _resolved_diagnostics(
    old_diagnostics: Collection[Diagnostic], new_diagnostics: Collection[Diagnostic]
) -> Iterator[Note]:
    """Yield a note for each diagnostic of the original that the result does not have."""
    remaining = Counter(map(_content, new_diagnostics))
    for diagnostic in old_diagnostics:
        remaining[_content(diagnostic)] -= 1
        if remaining[_content(diagnostic)] < 0:
            yield Note(
                diagnostic.span,
                f"{'left out' if diagnostic.code is Code.IGNORED_FIELD else 'rewritten'}: {diagnostic.message}",
            )


def _content(diagnostic: Diagnostic) -> tuple[Code | str, ...]:
    """Return the code and the quoted names of a diagnostic, without its span, which the migration may change."""
    return (diagnostic.code, *_QUOTED.findall(diagnostic.message))


def _changed_templates(root: MappingNode, document: MappingNode) -> Iterator[Note]:
    """Yield a note for each template whose text differs from the original, which has the same span."""
    originals: dict[Span, str] = {}
    for node in _walk(root):
        if isinstance(node, ScalarNode) and node.template_span:
            originals |= {node.template_span: node.text, node.span: node.text}
    keys = {id(key) for node in _walk(document) if isinstance(node, MappingNode) for key, _ in node.entries}
    for node in _walk(document):
        if not isinstance(node, ScalarNode) or id(node) in keys or node.span not in originals:
            continue
        old_text, new_text = (" ".join(text.split()) for text in (originals[node.span], node.text))
        if old_text != new_text:
            position = next(
                (index for index, pair in enumerate(zip(old_text, new_text, strict=False)) if len({*pair}) > 1), 0
            )
            yield Note(node.span, f'"{_excerpt(position, old_text)}" is written as "{_excerpt(position, new_text)}"')


def _excerpt(position: int, text: str) -> str:
    """Return the text around a position, truncated at both ends."""
    if len(text) <= _MAX_EXCERPT_CHARS:
        return text
    first = max(0, position - _MAX_EXCERPT_CHARS // 2)
    excerpt = text[first : first + _MAX_EXCERPT_CHARS]
    return f"{'...' * (first > 0)}{excerpt}{'...' * (first + _MAX_EXCERPT_CHARS < len(text))}"


def _expanded_anchors(root: MappingNode) -> Iterator[Note]:
    """Yield a note at the first alias: the canonical form has no anchors."""
    visited_ids: set[int] = set()
    for node in _walk(root):
        if id(node) in visited_ids:
            yield Note(node.span, "aliases are written out")
            return
        visited_ids.add(id(node))


def _defined_names(playbook: Playbook) -> set[str]:
    """Return the names that the playbook defines: of steps, inputs, arguments and defaults."""
    bound_values = [playbook.workload]
    for step in playbook.steps:
        bound_values += (step.args, *(task.input for task in step.tasks), *(arc.args for arc in all_arcs_of(step)))
    return {name for value in bound_values for name in mapping_of(value)} | {step.name.text for step in playbook.steps}


def _older_names(root: MappingNode, defined_names: set[str]) -> Iterator[Note]:
    spans_by_name: dict[str, list[Span]] = defaultdict(list)
    for node in _walk(root):
        if isinstance(node, ScalarNode) and (span := node.template_span):
            for name in analyse_template(node.text).root_names - defined_names:
                spans_by_name[name].append(span)
    for name, successor in _SUCCESSORS.items():
        if spans := spans_by_name.get(name):
            count = f"{len(spans)} templates use" if len(spans) > 1 else "a template uses"
            yield Note(min(spans), f'{count} the older name "{name}", which is "{successor}" in v10')


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            yield key
            yield from _walk(item)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _walk(item)
