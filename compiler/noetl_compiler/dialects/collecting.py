"""Read ``collect``: how the results of repeated calls are combined."""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Collect
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.policies import COLLECT_MAPPING
from noetl_compiler.language.words import STRATEGIES
from noetl_compiler.nodes import MappingNode, ScalarNode

__all__ = ["read_collect"]


def read_collect(fields: Fields) -> Collect | None:
    """Read ``{strategy, path, into}``, or just the strategy, next to a ``merge_path``."""
    found, path = fields.node_of("collect"), fields.text("merge_path")
    if isinstance(found, ScalarNode):
        strategy = fields.choice("collect", STRATEGIES)
        return Collect(strategy, path) if strategy else None
    if not isinstance(found, MappingNode):
        return None
    inner = ConstructFields(found, fields.report, COLLECT_MAPPING)
    strategy = inner.choice("strategy", STRATEGIES) or "append"
    collect = Collect(strategy, inner.text("path") or path, inner.text("into") or defaults.COLLECTED_AS)
    inner.close()
    return collect
