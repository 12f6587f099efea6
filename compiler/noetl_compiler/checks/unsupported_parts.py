"""Parts of a playbook that compile and cannot run yet. Kinds of tools and sinks are looked at where they are read."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span
from noetl_compiler.language.tools import PLAYBOOK
from noetl_compiler.language.unsupported import (
    CIRCUIT,
    CURSOR,
    FRAMED_CALL,
    KEYCHAIN,
    REGION,
    REMOTE_CODE,
    Unsupported,
)
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step, Task
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.templating.check import examine
from noetl_compiler.templating.template_sites import uses
from noetl_compiler.value_merge import names_in
from noetl_compiler.visible_names import VisibleNames

__all__ = ["warn_of_unsupported_parts"]


def warn_of_unsupported_parts(playbook: Playbook, report: Report) -> None:
    """NT502, at the first place of each."""
    for span, part in _found(playbook, report):
        if report.first(f"unsupported {part.problem}"):
            message = f"{part.problem}: the playbook compiles, but a run is refused"
            report.warning(Code.NO_EXECUTOR, span, message, part.remedy)


def _found(playbook: Playbook, report: Report) -> Iterator[tuple[Span, Unsupported]]:
    for step in playbook.steps:
        if not report.has_error_in(step.name.span):
            yield from _of_loop(step)
    for task in all_tasks(playbook):
        yield from _of_task(task, report)
    if playbook.keychain or "keychain" in report.source.text:
        yield from ((span, KEYCHAIN) for span in _keychain_reads(playbook))


def _of_loop(step: Step) -> Iterator[tuple[Span, Unsupported]]:
    if step.loop is not None and step.loop.body.cursor is not None:
        yield step.loop.body.cursor.span, CURSOR
    elif step.loop is not None and not step.tasks and not step.sinks:
        yield step.loop.body.span, REGION
    if step.loop is not None and step.loop.body.frame is not None:
        yield from ((task.span, FRAMED_CALL) for task in step.tasks if task.kind.text == PLAYBOOK)


def _of_task(task: Task, report: Report) -> Iterator[tuple[Span, Unsupported]]:
    if task.policy is not None and task.policy.circuit is not None:
        yield task.policy.circuit.span, CIRCUIT
    tool = report.tools.get(task.kind.text)
    if tool is not None and tool.has_executor and isinstance(names_in(task.config).get("script"), dict):
        yield task.span, REMOTE_CODE


def _keychain_reads(playbook: Playbook) -> Iterator[Span]:
    """Templates that name a secret, as ``keychain.<name>`` or by the name alone, where nothing else has that name."""
    secrets = {entry.name for entry in playbook.keychain} - {step.name.text for step in playbook.steps}
    names = VisibleNames(playbook)
    for use in uses(playbook):
        heads = {path.partition(".")[0] for path in examine(use.template.source).reads} & {"keychain", *secrets}
        if any(not names.gives(use, head) for head in heads):
            yield use.template.span
