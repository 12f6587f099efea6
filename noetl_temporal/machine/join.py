"""Joins: which waiting steps may run now.

A *token* is a branch of the run: a running step, or a step that waits at a join. A step with several incoming arcs runs
once per *wave*: it waits while any other token can still reach it without passing through it (semantics.md 9). This
depends only on the graph, so it is answered from a table of ancestors, built once per join:

* a token at step ``t`` blocks a join ``j`` if ``t`` is an ancestor of ``j`` by arcs, and ``t`` is not ``j`` itself: a
  path in a cycle through ``j`` has passed it and comes back as the next wave;
* two joins that wait for each other (in a cycle) would deadlock; if no other token is left, the join that is first in
  the playbook runs;
* the final step waits for every token, because all branches lead to it (semantics.md 4).

A step with one incoming arc, or ``join: each``, never waits. ``join: any`` runs at the first arrival and ignores later
ones, except one in a cycle through the step itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from noetl_compiler.graph import Graph

__all__ = ["Joins"]


class Joins:
    """The joins of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = {name: index for index, name in enumerate(graph.steps)}
        self._sources: dict[str, set[str]] = {}
        self._arcs: dict[str, int] = {}
        for step in graph.steps.values():
            for arc in step.route.arcs:
                self._sources.setdefault(arc.target, set()).add(step.name)
                self._arcs[arc.target] = self._arcs.get(arc.target, 0) + 1
        self._ancestors: dict[str, frozenset[str]] = {}

    def waits(self, step: str) -> bool:
        """Whether a token that arrives at this step may have to wait."""
        if step == self._graph.final:
            return True
        return self._graph.steps[step].join == "wave" and self._arcs.get(step, 0) > 1

    def absorbs(self, step: str, origin: str, has_run: bool) -> bool:
        """Whether an arrival at a ``join: any`` is a late one."""
        is_any = self._graph.steps[step].join == "any" and step != self._graph.final
        return is_any and has_run and step not in self._ancestors_of(origin) and origin != step

    def ready(self, waiting: Collection[str], running: Collection[str]) -> list[str]:
        """Return the waiting steps that may run now, in the playbook's order; the final step only alone."""
        final = self._graph.final
        joins = sorted((step for step in waiting if step != final), key=self._order.__getitem__)
        free = [step for step in joins if not (self._is_blocked(step, running) or self._is_blocked(step, joins))]
        if free:
            return free
        if running:
            return []
        if joins:
            return joins[:1]
        return [final] if final in waiting else []

    def _is_blocked(self, step: str, tokens: Iterable[str]) -> bool:
        ancestors = self._ancestors_of(step)
        return any(token != step and token in ancestors for token in tokens)

    def _ancestors_of(self, step: str) -> frozenset[str]:
        ancestors = self._ancestors.get(step)
        if ancestors is None:
            ancestors = self._ancestors[step] = self._find_ancestors(step)
        return ancestors

    def _find_ancestors(self, step: str) -> frozenset[str]:
        """Return every step from which arcs lead to ``step``."""
        ancestors: set[str] = set()
        frontier = [step]
        while frontier:
            for source in sorted(self._sources.get(frontier.pop(), ())):
                if source not in ancestors and source != step:
                    ancestors.add(source)
                    frontier.append(source)
        return frozenset(ancestors)
