"""Finds files of tests, and reads them with the playbooks that they test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from noetl_compiler import Result, compile_file
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity, did_you_mean_or_list, sort_and_dedupe
from noetl_compiler.graph import Graph, Span
from noetl_compiler.language.sinks import TRANSACTIONAL_KINDS
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.playbook_tests import CallSelector, PlaybookTest, Request, Stub, Suite, read_tests
from noetl_compiler.reader import read_file
from noetl_compiler.syntax import Name
from noetl_temporal.machine.waits.matching import signals_of
from noetl_temporal.submission.unsupported import unsupported_uses

__all__ = ["LoadedSuite", "load", "suite_files"]

SUFFIXES = (".test.yaml", ".test.yml")
_ANYTHING = "..."


@dataclass(frozen=True)
class LoadedSuite:
    """A file of tests with its ``playbook``. ``graph`` is None if the tests cannot run: then ``invalid_files`` are the
    files with diagnostics, or ``unsupported`` are lines about what the playbook uses that is not supported.
    """

    suite: Suite
    graph: Graph | None
    invalid_files: tuple[Result, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The path of the tests."""
        return self.suite.source.file


def suite_files(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and the test files below the given folders, each once."""
    files = (file for path in paths for file in (_test_files(path) if path.is_dir() else [path]))
    return list({file.resolve(): file for file in files}.values())


def _test_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.name.endswith(SUFFIXES) and file.is_file())


def load(file: Path, tools: Tools) -> LoadedSuite:
    """Return the tests of a file and the graph of their playbook."""
    source, unreadable = read_file(file)
    suite = Suite(source, diagnostics=tuple(unreadable)) if unreadable else read_tests(source)
    if suite.diagnostics:
        return LoadedSuite(suite, None, (Result(None, suite.diagnostics, source),))
    playbook = _playbook_of(suite, file)
    if not playbook.is_file():
        span = suite.playbook.span if suite.playbook else Span(1, 1, 1, 1)
        message = f'there is no playbook "{playbook}"'
        missing = _error(suite, Code.UNREADABLE_FILE, span, message, "write playbook: with its path from this folder")
        return LoadedSuite(suite, None, (Result(None, (missing,), source),))
    result = compile_file(playbook, tools)
    if result.graph is None:
        return LoadedSuite(suite, None, (result,))
    executors = {kind for kind, tool in tools.items() if tool.has_executor}
    if unsupported := unsupported_uses(result.graph, executors):
        return LoadedSuite(suite, None, unsupported=tuple(unsupported))
    if unknown := tuple(_unknown_names(suite, result.graph)):
        return LoadedSuite(suite, None, (Result(None, sort_and_dedupe(unknown), source),))
    return LoadedSuite(suite, result.graph)


def _playbook_of(suite: Suite, file: Path) -> Path:
    if suite.playbook is not None:
        return file.parent / suite.playbook.text
    suffix = next((ending for ending in SUFFIXES if file.name.endswith(ending)), file.suffix)
    return file.with_name(file.name.removesuffix(suffix) + Path(suffix).suffix)


# ---- names of steps and tasks ----------------------------------------------------------------------------------------


def _unknown_names(suite: Suite, graph: Graph) -> Iterator[Diagnostic]:
    """Yield steps and tasks that the playbook does not have."""
    for test in suite.tests:
        for calls in (*(stub.calls for stub in test.stubs), *(expected_calls.calls for expected_calls in test.calls)):
            yield from _unknown_call(suite, graph, calls)
        for stub in test.stubs:
            yield from _inapplicable_responses(suite, graph, stub)
        for name in _steps_of(test):
            yield from _unknown_step(suite, graph, name)
        for request in test.requests:
            yield from _impossible_requests(suite, graph, request)


def _unknown_call(suite: Suite, graph: Graph, calls: CallSelector) -> Iterator[Diagnostic]:
    step = graph.steps.get(calls.step.text)
    if step is None:
        yield from _unknown_step(suite, graph, calls.step)
        return
    labels = [task.label for task in step.all_tasks]
    if calls.task is not None and calls.task.text not in labels:
        message = f'the step "{step.name}" has no task "{calls.task.text}"'
        hint = did_you_mean_or_list(calls.task.text, labels, "its tasks are")
        yield _error(suite, Code.UNKNOWN_LABEL, calls.task.span, message, hint)


def _inapplicable_responses(suite: Suite, graph: Graph, stub: Stub) -> Iterator[Diagnostic]:
    """Yield an error for a response that none of the tasks can receive."""
    key, kinds = ("http", ("http",)) if stub.http else ("rows", tuple(sorted(TRANSACTIONAL_KINDS)))
    step = graph.steps.get(stub.calls.step.text)
    if step is None or not (stub.http or stub.rows is not None):
        return
    tasks = [task for task in step.all_tasks if stub.calls.task is None or stub.calls.task.text == task.label]
    if tasks and not any(task.kind in kinds for task in tasks):
        kind_names = ", ".join(sorted({task.kind for task in tasks}))
        message = f'"{key}" answers calls of {" and ".join(kinds)}, and this stub is for {kind_names}'
        yield _error(suite, Code.WRONG_VALUE, stub.span, message, "write result: with what the call returns")


def _impossible_requests(suite: Suite, graph: Graph, request: Request) -> Iterator[Diagnostic]:
    """Yield errors for a request that no run of the playbook can wait for."""
    signals, step = signals_of(graph), graph.steps.get(request.step.text.partition("#")[0]) if request.step else None
    if request.name is not None and request.name.text not in signals:
        hint = (
            did_you_mean_or_list(request.name.text, signals, "its signals are")
            if signals
            else "it waits for no signals"
        )
        message = f'no step waits for the signal "{request.name.text}"'
        yield _error(suite, Code.WRONG_VALUE, request.name.span, message, hint)
    if request.step is None:
        return
    if step is None:
        yield from _unknown_step(suite, graph, request.step)
    elif request.do in ("approve", "reject") and not any(task.kind == "approval" for task in step.tasks):
        message = f'the step "{step.name}" has no approval to {request.do}'
        yield _error(suite, Code.WRONG_VALUE, request.step.span, message, "name a step with a task of kind approval")
    elif request.do in ("retry", "skip") and step.hold is None:
        message = f'the step "{step.name}" is never held, so there is nothing to {request.do}'
        yield _error(suite, Code.WRONG_VALUE, request.step.span, message, "write on_failure: hold at the step")


def _steps_of(test: PlaybookTest) -> Iterator[Name]:
    for key in ("route", "steps"):
        yield from (_name(item) for item in _items(test.expected.get(key)))
    results = test.expected.get("results")
    if isinstance(results, MappingNode):
        yield from (_name(key) for key, _ in results.entries)
    for failure in _items(test.expected.get("failures")):
        step = failure.get("step") if isinstance(failure, MappingNode) else None
        if step is not None:
            yield _name(step)


def _name(node: Node) -> Name:
    return Name(node.text if isinstance(node, ScalarNode) else "", node.span)


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, SequenceNode) else ()


def _unknown_step(suite: Suite, graph: Graph, name: Name) -> Iterator[Diagnostic]:
    if name.text not in graph.steps and name.text != _ANYTHING:
        hint = did_you_mean_or_list(name.text, graph.steps, "its steps are")
        yield _error(suite, Code.UNKNOWN_STEP, name.span, f'the playbook has no step "{name.text}"', hint)


def _error(suite: Suite, code: Code, span: Span, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, span, message, hint, file=suite.source.file)
