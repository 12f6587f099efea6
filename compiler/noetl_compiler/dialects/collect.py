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
    """Read ``{strategy, path, into}``, or only a strategy beside ``merge_path``."""
    node, path = fields.node_of("collect"), fields.text("merge_path")
    if isinstance(node, ScalarNode):
        strategy = fields.choice("collect", STRATEGIES)
        return Collect(strategy, path) if strategy else None
    if not isinstance(node, MappingNode):
        return None
    collect_fields = ConstructFields(node, fields.report, COLLECT_MAPPING)
    strategy = collect_fields.choice("strategy", STRATEGIES) or "append"
    collect = Collect(
        strategy, collect_fields.text("path") or path, collect_fields.text("into") or defaults.COLLECTED_AS
    )
    collect_fields.check_keys()
    return collect
