"""The front ends, one file or folder per dialect. All produce the same syntax tree."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.dialects import legacy, v10
from noetl_compiler.dialects.case import step as case
from noetl_compiler.dialects.detect import detect
from noetl_compiler.dialects.root import ReadStep, read_playbook
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.v1 import step as v1
from noetl_compiler.dialects.v1.playbook import settle
from noetl_compiler.dialects.waits import with_timeout_routes
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.steps import ANY_STEP, STEP
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["parse"]

_FRONT_ENDS: Mapping[Dialect, tuple[Construct, ReadStep]] = MappingProxyType(
    {
        "v1": (ANY_STEP, v1.read_step),
        "legacy": (ANY_STEP, legacy.read_step),
        "case": (ANY_STEP, case.read_step),
        "v10": (STEP, v10.read_step),
    }
)
"""Dialect -> the construct of its steps, and the function that reads them."""


def parse(root: MappingNode, report: Report) -> Playbook:
    """Return the syntax tree of a document. Never raises; errors go to the report."""
    dialect = detect(root, report)
    playbook = read_playbook(root, ParseContext(dialect, report), *_FRONT_ENDS[dialect])
    return with_timeout_routes(settle(playbook) if dialect == "v1" else playbook, report)
