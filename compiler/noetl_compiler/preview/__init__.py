"""Human-readable views of a graph: text for a terminal, Mermaid, Graphviz, SVG and HTML. For JSON: ``graph.encode``."""

from __future__ import annotations

from noetl_compiler.preview.dot import dot
from noetl_compiler.preview.explain import explain
from noetl_compiler.preview.forecast_table import forecast_table
from noetl_compiler.preview.key_paths import KeyPathLookup
from noetl_compiler.preview.mermaid import mermaid
from noetl_compiler.preview.page import page
from noetl_compiler.preview.svg import svg
from noetl_compiler.preview.tree import guarantees, tree

__all__ = ["KeyPathLookup", "dot", "explain", "forecast_table", "guarantees", "mermaid", "page", "svg", "tree"]
