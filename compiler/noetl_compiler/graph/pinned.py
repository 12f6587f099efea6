"""The playbooks that a run may call, pinned at submission (semantics.md 27)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

import msgspec

from noetl_compiler.graph import Graph, Json, Task
from noetl_compiler.language.tools import PLAYBOOK

__all__ = [
    "NO_CALLS",
    "PinnedCalls",
    "PinnedPlaybook",
    "call_name",
    "calling_tasks",
    "has_calls",
    "has_templated_calls",
    "literal_call",
]


class PinnedPlaybook(msgspec.Struct, frozen=True):
    """A compiled playbook. ``content`` is its text."""

    graph: Graph
    content: str


class PinnedCalls(msgspec.Struct, frozen=True, omit_defaults=True):
    """The playbooks that a run may call.

    ``playbooks`` has all that may be called, by digest. ``pins`` maps the digest of a caller and the name in a literal
    call (see call_name) to the digest of the called playbook. ``digests_by_name`` does so for the templated calls of
    any caller, and is empty if there are none. ``problems`` has the reason why a playbook cannot run here, by digest.
    """

    playbooks: dict[str, PinnedPlaybook] = {}
    pins: dict[str, dict[str, str]] = {}
    digests_by_name: dict[str, str] = {}
    problems: dict[str, str] = {}

    def find(self, caller_digest: str, path: str, version: str) -> PinnedPlaybook | None:
        """Return the called playbook, or None if it was not submitted."""
        name = call_name(path, version)
        digest = self.pins.get(caller_digest, {}).get(name) or self.digests_by_name.get(name)
        if digest is None and not version:  # files have no version
            digest = self.digests_by_name.get(posixpath.normpath(path.lstrip("/")))
        return None if digest is None else self.playbooks[digest]

    @property
    def paths(self) -> Iterable[str]:
        """The paths by which playbooks can be called."""
        return sorted({playbook.graph.source.path for playbook in self.playbooks.values()})

    @property
    def graphs(self) -> Iterable[Graph]:
        """The graphs of all playbooks."""
        return [playbook.graph for playbook in self.playbooks.values()]

    def closure(self, root: Graph) -> list[Graph]:
        """Return the root and all playbooks that it calls by literal names, directly or indirectly, each once."""
        reachable_graphs, reached_digests = [root], {root.digest}
        for caller in reachable_graphs:
            for task in calling_tasks(caller):
                called_playbook = self.find(caller.digest, *literal) if (literal := literal_call(task)) else None
                if called_playbook is not None and called_playbook.graph.digest not in reached_digests:
                    reached_digests.add(called_playbook.graph.digest)
                    reachable_graphs.append(called_playbook.graph)
        return reachable_graphs


NO_CALLS = PinnedCalls()


def call_name(path: str, version: Json) -> str:
    """Return the name in a call: ``path@version``; only the path for the newest version."""
    return f"{path}@{version}" if version else path


def calling_tasks(graph: Graph) -> Iterator[Task]:
    """Yield the tasks that call playbooks."""
    return (task for step in graph.steps.values() for task in step.tasks if task.kind == PLAYBOOK)


def has_calls(graph: Graph) -> bool:
    """Whether the graph calls a playbook."""
    return next(calling_tasks(graph), None) is not None


def has_templated_calls(graph: Graph) -> bool:
    """Whether a called playbook is named by a template, so that it is known only at run time."""
    return any(literal_call(task) is None for task in calling_tasks(graph))


def literal_call(task: Task) -> tuple[str, str] | None:
    """Return the (path, version) that a call names; None if they are templates or there is no path."""
    config: dict[str, Json] = task.config.data
    path, version = config.get("path"), str(config.get("version") or "")
    is_literal = isinstance(path, str) and task.config.templates.keys().isdisjoint(("/path", "/version"))
    return (str(path), version) if is_literal else None
