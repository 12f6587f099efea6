"""The front ends: one file an era, all yielding the one syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.dialects import legacy, v1, v10
from noetl_compiler.dialects.detect import detect
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.root import read_playbook
from noetl_compiler.dialects.tasks import Surroundings
from noetl_compiler.dialects.v1_playbook import settle
from noetl_compiler.nodes import MappingNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Dialect, Name, Playbook, Step

__all__ = ["parse"]

ReadStep = Callable[[Fields, Name, Surroundings], Step]

_FRONT_ENDS: Mapping[Dialect, ReadStep] = MappingProxyType(
    {"v1": v1.read_step, "legacy": legacy.read_step, "v10": v10.read_step}
)


def parse(root: MappingNode, report: Report) -> Playbook | None:
    """The syntax tree of a document, None when its dialect has no front end yet. Never raises."""
    dialect = detect(root, report)
    read_step = _FRONT_ENDS.get(dialect)
    if read_step is None:
        supported = ", ".join(sorted(_FRONT_ENDS))
        message = f'playbooks of the dialect "{dialect}" are not supported yet'
        report.error(Code.UNSUPPORTED_DIALECT, root.span, message, f"supported are {supported}")
        return None
    playbook = read_playbook(root, Surroundings(dialect, report), read_step)
    return settle(playbook) if dialect == "v1" else playbook
