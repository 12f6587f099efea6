"""The interface of a playbook to its callers.

It *needs* the names that only a request can provide: read by a template outside of a predicate (predicates may read
undefined names), and bound neither by its workload nor by a step. A default of null counts as no default. It *mentions*
every word of its text: a name that does not occur there, not even in SQL, is unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from noetl_compiler.graph import Graph, Span, Value
from noetl_compiler.graph.pinned import calling_tasks, literal_call
from noetl_compiler.language.names import OUTCOME, WORKLOAD
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.phases import ParsedPlaybook, lowered
from noetl_compiler.syntax import Playbook
from noetl_compiler.templating.check import examine
from noetl_compiler.templating.template_sites import uses
from noetl_compiler.value_merge import names_in
from noetl_compiler.visible_names import VisibleNames

__all__ = ["Call", "Member", "member_of"]

_REQUEST = frozenset({*WORKLOAD, "payload", "ctx", "input", "args"})
_BEGINNING = Span(1, 1, 1, 1)
_WORD = re.compile(r"[^\W\d]\w*")


class Call(NamedTuple):
    """A call of a playbook by name; ``version`` is empty for the newest.

    ``said`` are the names that the call itself passes, ``given`` also those that its step binds for all its tasks; both
    are None if they are only known at run time.
    """

    path: str
    version: str
    span: Span
    said: frozenset[str] | None
    given: frozenset[str] | None


class Member(msgspec.Struct, frozen=True):
    """A playbook of the catalog. ``path`` and ``version`` are those of its metadata, ``span`` is that of the path.

    With errors, ``calls`` is empty and there is no ``graph``; if the file could not be parsed, all fields are empty.
    """

    found: ParsedPlaybook
    graph: Graph | None = None
    path: str = ""
    version: str = ""
    span: Span = _BEGINNING
    needs: frozenset[str] = frozenset()
    workload: frozenset[str] = frozenset()
    mentions: frozenset[str] | None = None
    calls: tuple[Call, ...] = ()

    @property
    def file(self) -> str:
        """The name of its file, as given by the user."""
        return self.found.source.file

    @property
    def identity(self) -> tuple[str, str]:
        """Path and version, which identify a playbook independently of its file."""
        return (self.path, self.version) if self.path else (self.file, "")

    def lacks(self, call: Call) -> list[str]:
        """Return the names that the playbook needs but the call does not pass."""
        return [] if call.given is None else sorted(self.needs - call.given)

    def leaves_unused(self, call: Call) -> list[str]:
        """Return the names that the call passes but the playbook does not mention."""
        if self.mentions is None or call.said is None:
            return []
        return sorted(call.said - self.workload - self.mentions)


def member_of(found: ParsedPlaybook) -> Member:
    """Build the catalog entry of a parsed playbook."""
    playbook = found.playbook
    if playbook is None or found.root is None:
        return Member(found)
    graph = lowered(found).graph
    return Member(
        found,
        graph,
        playbook.path,
        playbook.version,
        next(_places(found.root, playbook.path), playbook.span),
        needs=frozenset(_required_names(playbook)),
        workload=frozenset(names_in(playbook.workload)),
        mentions=_words_in(playbook, found.source.text),
        calls=tuple(_calls(graph, found.root)) if graph else (),
    )


def _required_names(playbook: Playbook) -> Iterator[str]:
    names = VisibleNames(playbook)
    nulls = {name for name, default in names_in(playbook.workload).items() if default is None}
    for use in uses(playbook):
        for path in () if use.is_predicate else examine(use.template.source).needs:
            head, _, rest = path.partition(".")
            name = rest.partition(".")[0]
            if names.binds(use, head):
                continue
            if head in WORKLOAD and name and (name in nulls or name not in (names.below(use, head) or ())):
                yield name
            elif head not in OUTCOME and not names.knows(use, head):
                yield head


def _words_in(playbook: Playbook, text: str) -> frozenset[str] | None:
    """Return the words of the text; None if the request is read as a whole, so that any name may be used."""
    if any(path in _REQUEST for use in uses(playbook) for path in examine(use.template.source).reads):
        return None
    return frozenset(_WORD.findall(text))


def _calls(graph: Graph, root: Node) -> Iterator[Call]:
    for task in calling_tasks(graph):
        if (literal := literal_call(task)) is not None:
            path, version = literal
            bound, around = _names(task.input), _names(task.given)
            given = None if bound is None or around is None else bound | around
            yield Call(path, version, _place(root, task.span, path), bound, given)


def _names(value: Value) -> frozenset[str] | None:
    return None if "" in value.templates else frozenset(names_in(value))


def _place(root: Node, within: Span, text: str) -> Span:
    """Return the span of a text inside a task, or that of the task."""
    return next((span for span in _places(root, text) if _holds(within, span)), within)


def _places(node: Node, text: str) -> Iterator[Span]:
    if isinstance(node, ScalarNode):
        if node.text == text:
            yield node.span
        return
    children = node.items if isinstance(node, SequenceNode) else (item for _, item in node.entries)
    for child in children:
        yield from _places(child, text)


def _holds(outer: Span, inner: Span) -> bool:
    begins = (outer.line, outer.col) <= (inner.line, inner.col)
    return begins and (inner.end_line, inner.end_col) <= (outer.end_line, outer.end_col)
