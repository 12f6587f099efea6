"""The secrets of a playbook as its templates see them: references, which only the called tools can resolve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, KeychainEntry
from noetl_compiler.language.keychain import SECRETS_TOOL
from noetl_compiler.secret_references import SecretReference
from noetl_temporal.machine.scope import Chain

__all__ = ["Keychain", "uses_secrets"]


def uses_secrets(graph: Graph) -> bool:
    """Whether references may occur in a run of the graph."""
    return bool(graph.keychain) or any(
        task.kind == SECRETS_TOOL for step in graph.steps.values() for task in step.tasks
    )


class Keychain:
    """The keychain of one run. ``key`` signs its references; it is empty if none may occur.

    An entry is rendered when a template first reads it, with the workload and the constant names of the run.
    """

    def __init__(self, graph: Graph, execution_id: int, key: str) -> None:
        self.key = key if uses_secrets(graph) else ""
        self._entries = {entry.name: entry for entry in graph.keychain} if key else {}
        self._ident = str(execution_id)
        self._rendered: dict[str, dict[str, Json]] = {}
        self._rendering: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether there are no entries, so that templates do not see it."""
        return not self._entries

    def names(self, workload: Mapping[str, Any], payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the secrets by name, as templates see them."""
        return _Secrets(self, workload, payload)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def secret(self, name: str, workload: Mapping[str, Any], payload: Mapping[str, Any]) -> templates.Secret:
        """Return a reference to a secret. Raises KeyError; TemplateFailure if a template of the entry cannot be
        evaluated.
        """
        entry = self._entries[name]
        if name not in self._rendered:
            self._rendered[name] = self._render(entry, workload, payload)
        return templates.Secret(SecretReference(name, entry.kind, self._rendered[name]), self.key)

    def _render(self, entry: KeychainEntry, workload: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Json]:
        if entry.name in self._rendering:
            cycle = " -> ".join((*self._rendering, entry.name))
            raise templates.TemplateFailure(f"entries of the keychain depend on each other: {cycle}", entry.span)
        secrets = self.names(workload, payload)
        constants = {
            "workload": workload,
            "work": workload,
            "payload": payload,
            "execution_id": self._ident,
            "job": {"id": self._ident, "uuid": self._ident, "execution_id": self._ident},
            "keychain": secrets,
        }
        self._rendering.append(entry.name)
        try:
            config: dict[str, Json] = templates.render(entry.config, Chain(constants, workload, secrets)) or {}
        finally:
            self._rendering.pop()
        return config


class _Secrets(Mapping[str, Any]):
    __slots__ = ("_keychain", "_payload", "_workload")

    def __init__(self, keychain: Keychain, workload: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        self._keychain = keychain
        self._workload = workload
        self._payload = payload

    def __getitem__(self, key: str) -> templates.Secret:
        return self._keychain.secret(key, self._workload, self._payload)

    def __contains__(self, key: object) -> bool:
        return key in self._keychain

    def __iter__(self) -> Iterator[str]:
        return iter(self._keychain)

    def __len__(self) -> int:
        return sum(1 for _ in self._keychain)
