"""A playbook as its callers see it: its path, its calls, the inputs that it needs, and those that it may use.

It *needs* the names that only a request can provide: those that a template outside of a predicate reads, and that
neither its workload nor a step binds. (Predicates may read undefined names.) A default of null counts as no default. It
*mentions* every word of its text: an input whose name does not occur there, not even in SQL, is unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from noetl_compiler.graph import Graph, Span, Task, Value
from noetl_compiler.graph.pinned import calling_tasks, literal_call
from noetl_compiler.language.names import OUTCOME, WORKLOAD
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.phases import ParsedPlaybook, compile_parsed
from noetl_compiler.syntax import Playbook
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.template_uses import template_uses
from noetl_compiler.value_merge import mapping_of
from noetl_compiler.visible_names import VisibleNames

__all__ = ["Call", "CallablePlaybook", "callable_playbook"]

_REQUEST_NAMES = frozenset({*WORKLOAD, "payload", "ctx", "input", "args"})
_START = Span(1, 1, 1, 1)
_WORD = re.compile(r"[^\W\d]\w*")


class Call(NamedTuple):
    """A call of a playbook by name; ``version`` is empty for the newest.

    ``passed_names`` are the names that the call itself passes; ``bound_names`` also has those that its step binds for
    all its tasks. Both are None if they are known only at run time. ``return_step`` is the step whose result the caller
    receives; it is empty for the last step, and if it is known only at run time.
    """

    path: str
    version: str
    span: Span
    passed_names: frozenset[str] | None
    bound_names: frozenset[str] | None
    return_step: str
    return_step_span: Span


class CallablePlaybook(msgspec.Struct, frozen=True):
    """A playbook that others may call. ``path`` and ``version`` are those of its metadata, ``span`` is that of the
    path.

    With errors, ``calls`` is empty and there is no ``graph``; if the file could not be parsed, all fields are empty.
    """

    parsed: ParsedPlaybook
    graph: Graph | None = None
    path: str = ""
    version: str = ""
    span: Span = _START
    needs: frozenset[str] = frozenset()
    workload: frozenset[str] = frozenset()
    mentions: frozenset[str] | None = None
    calls: tuple[Call, ...] = ()

    @property
    def file(self) -> str:
        """The name of its file, as given by the user."""
        return self.parsed.source.file

    @property
    def identity(self) -> tuple[str, str]:
        """Path and version, which identify a playbook independently of its file."""
        return (self.path, self.version) if self.path else (self.file, "")

    def missing_inputs(self, call: Call) -> list[str]:
        """Return the names that the playbook needs but the call does not pass."""
        return [] if call.bound_names is None else sorted(self.needs - call.bound_names)

    def unused_inputs(self, call: Call) -> list[str]:
        """Return the names that the call passes but the playbook does not mention."""
        if self.mentions is None or call.passed_names is None:
            return []
        return sorted(call.passed_names - self.workload - self.mentions)


def callable_playbook(parsed: ParsedPlaybook) -> CallablePlaybook:
    """Return a parsed playbook with its calls and inputs."""
    playbook = parsed.playbook
    if playbook is None or parsed.root is None:
        return CallablePlaybook(parsed)
    graph = compile_parsed(parsed).graph
    return CallablePlaybook(
        parsed,
        graph,
        playbook.path,
        playbook.version,
        next(_spans_of(playbook.path, parsed.root), playbook.span),
        needs=frozenset(_required_names(playbook)),
        workload=frozenset(mapping_of(playbook.workload)),
        mentions=_words_in(playbook, parsed.source.text),
        calls=tuple(_calls(graph, parsed.root)) if graph else (),
    )


def _required_names(playbook: Playbook) -> Iterator[str]:
    names = VisibleNames(playbook)
    null_defaults = {name for name, default in mapping_of(playbook.workload).items() if default is None}
    for use in template_uses(playbook):
        for path in () if use.is_predicate else analyse_template(use.template.source).required_paths:
            head, _, remainder = path.partition(".")
            name = remainder.partition(".")[0]
            if names.may_be_bound_by_playbook(use, head):
                continue
            if (
                head in WORKLOAD
                and name
                and (name in null_defaults or name not in (names.names_below(use, head) or ()))
            ):
                yield name
            elif head not in OUTCOME and not names.may_be_bound(use, head):
                yield head


def _words_in(playbook: Playbook, text: str) -> frozenset[str] | None:
    """Return the words of the text; None if the request is read as a whole, so that any name may be used."""
    if any(
        path in _REQUEST_NAMES
        for use in template_uses(playbook)
        for path in analyse_template(use.template.source).read_paths
    ):
        return None
    return frozenset(_WORD.findall(text))


def _calls(graph: Graph, root: Node) -> Iterator[Call]:
    for task in calling_tasks(graph):
        if (literal := literal_call(task)) is not None:
            path, version = literal
            passed_names, caller_names = _bound_names(task.input), _bound_names(task.inherited_input)
            bound_names = None if passed_names is None or caller_names is None else passed_names | caller_names
            span, return_step = _span_of(path, task.span, root), _return_step(task)
            return_step_span = _span_of(return_step, task.span, root)
            yield Call(path, version, span, passed_names, bound_names, return_step, return_step_span)


def _return_step(task: Task) -> str:
    names = (name for name in ("return_step", "result_step") if f"/{name}" not in task.config.templates)
    return next((str(step) for name in names if (step := mapping_of(task.config).get(name))), "")


def _bound_names(value: Value) -> frozenset[str] | None:
    return None if "" in value.templates else frozenset(mapping_of(value))


def _span_of(text: str, task: Span, root: Node) -> Span:
    """Return the span of a scalar with this text inside a task, or that of the task."""
    return next((span for span in _spans_of(text, root) if task.contains(span)), task)


def _spans_of(text: str, node: Node) -> Iterator[Span]:
    if isinstance(node, ScalarNode):
        if node.text == text:
            yield node.span
        return
    children = node.items if isinstance(node, SequenceNode) else (item for _, item in node.entries)
    for child in children:
        yield from _spans_of(text, child)
