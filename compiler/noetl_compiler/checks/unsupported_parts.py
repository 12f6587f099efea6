"""Parts of a playbook that compile but cannot run yet. Kinds of tools and sinks are checked elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.framing import unframed_loops
from noetl_compiler.graph import Span
from noetl_compiler.language.unsupported import (
    RESULT_REFERENCE,
    Unsupported,
    fetches_result,
    unsupported_cursor,
)
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of

__all__ = ["warn_of_unsupported_parts"]


def warn_of_unsupported_parts(playbook: Playbook, report: Report) -> None:
    """Report NT502, once per unsupported part, and NT105 for frames that make no loop faster."""
    for span, part in _unsupported_parts(playbook, report):
        if report.first_time(f"unsupported {part.problem}"):
            message = f"{part.problem}: the playbook compiles, but a run is refused"
            report.warning(Code.NO_EXECUTOR, span, message, part.remedy)
    reasons_without_frame = unframed_loops(playbook)
    for step in playbook.steps:
        frame = step.loop.body.frame if step.loop is not None else None
        if frame is None:
            continue
        if (reason := reasons_without_frame.get(step.name.text)) is not None:
            report.warning(Code.IGNORED_FIELD, frame.span, f'"frame" has no effect here: {reason}', "remove the frame")
        elif frame.max_rows is not None and frame.max_rows.data == 1:
            message = "each frame has one item, so the loop is no faster than without frames"
            report.warning(Code.IGNORED_FIELD, frame.span, message, 'raise "max_rows", or remove the frame')


def _unsupported_parts(playbook: Playbook, report: Report) -> Iterator[tuple[Span, Unsupported]]:
    for step in playbook.steps:
        if not report.has_error_in(step.name.span):
            yield from _parts_of_loop(step)
    for task in all_tasks(playbook):
        if fetches_result(task.kind.text, mapping_of(task.config), mapping_of(task.input)):
            yield task.span, RESULT_REFERENCE


def _parts_of_loop(step: Step) -> Iterator[tuple[Span, Unsupported]]:
    cursor = step.loop.body.cursor if step.loop is not None else None
    part = None if cursor is None else unsupported_cursor(cursor.kind)
    if cursor is not None and part is not None:
        yield cursor.span, part
