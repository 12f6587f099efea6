"""The front ends, one file or folder per dialect. All produce the same syntax tree."""

from __future__ import annotations

from noetl_compiler.dialects.detect import detect
from noetl_compiler.dialects.root import ReadStep, read_playbook
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.waits import with_timeout_routes
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.steps import ANY_STEP, STEP
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["parse"]


def _front_end(dialect: Dialect) -> tuple[Construct, ReadStep]:
    """Return the construct of the dialect's steps, and the function that reads them. No other front end is imported."""
    match dialect:
        case "v1":
            from noetl_compiler.dialects.v1 import step as v1

            return ANY_STEP, v1.read_step
        case "legacy":
            from noetl_compiler.dialects import legacy

            return ANY_STEP, legacy.read_step
        case "case":
            from noetl_compiler.dialects.case import step as case

            return ANY_STEP, case.read_step
        case "v10":
            from noetl_compiler.dialects import v10

            return STEP, v10.read_step


def parse(root: MappingNode, report: Report) -> Playbook:
    """Return the syntax tree of a document. Never raises; errors go to the report."""
    dialect = detect(root, report)
    if dialect == "v1":
        from noetl_compiler.dialects.v1.case_sinks import with_case_sinks

        root = with_case_sinks(root)
    playbook = read_playbook(root, ParseContext(dialect, report), *_front_end(dialect))
    if dialect == "v1":
        from noetl_compiler.dialects.v1.playbook import convert_playbook

        playbook = convert_playbook(playbook)
    return with_timeout_routes(playbook, report)
