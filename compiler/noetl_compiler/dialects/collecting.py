"""``collect``: how the results of repeated calls become one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Collect
from noetl_compiler.nodes import MappingNode, ScalarNode

__all__ = ["STRATEGIES", "read_collect"]

STRATEGIES: Mapping[str, Literal["append", "replace", "collect", "merge"]] = MappingProxyType(
    {"append": "append", "extend": "append", "replace": "replace", "collect": "collect", "merge": "merge"}
)


def read_collect(fields: Fields) -> Collect | None:
    """``{strategy, path, into}``, or the strategy alone beside ``merge_path``."""
    found, path = fields.node_of("collect"), fields.text("merge_path")
    if isinstance(found, ScalarNode):
        strategy = fields.choice("collect", STRATEGIES)
        return Collect(strategy, path) if strategy else None
    if not isinstance(found, MappingNode):
        return None
    inner = Fields(found, fields.report, "collect")
    strategy = inner.choice("strategy", STRATEGIES) or "append"
    collect = Collect(strategy, inner.text("path", "merge_path") or path, inner.text("into") or "pages")
    inner.close()
    return collect
