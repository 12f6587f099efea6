"""A graph for people: as text for a terminal, as a diagram for a page. The graph as JSON is ``graph.encode``."""

from __future__ import annotations

from noetl_compiler.preview.mermaid import mermaid
from noetl_compiler.preview.tree import tree

__all__ = ["mermaid", "tree"]
