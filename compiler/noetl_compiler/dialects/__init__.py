"""The front ends: a file or a folder for each era, all yielding the one syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from noetl_compiler.dialects import legacy, v10
from noetl_compiler.dialects.case import step as case
from noetl_compiler.dialects.detect import detect
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.root import read_playbook
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.v1 import step as v1
from noetl_compiler.dialects.v1.playbook import settle
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook, Step

__all__ = ["parse"]

ReadStep = Callable[[Fields, Name, ParseContext], Step]

_FRONT_ENDS: Mapping[Dialect, ReadStep] = MappingProxyType(
    {"v1": v1.read_step, "legacy": legacy.read_step, "case": case.read_step, "v10": v10.read_step}
)


def parse(root: MappingNode, report: Report) -> Playbook:
    """The syntax tree of a document. Never raises."""
    dialect = detect(root, report)
    playbook = read_playbook(root, ParseContext(dialect, report), _FRONT_ENDS[dialect])
    return settle(playbook) if dialect == "v1" else playbook
