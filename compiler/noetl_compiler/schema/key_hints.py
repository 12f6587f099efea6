"""The hint for an unknown key: where it belongs, or the nearest known key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noetl_compiler.diagnostics import nearest, nearest_or_all
from noetl_compiler.schema.model import Model, Property, Schema

__all__ = ["KeyPaths", "paths_below"]

_FAR = 0.4
"""The least similarity of the nearest key, where none is very near."""


@dataclass(frozen=True)
class KeyPaths:
    """The paths to all keys: ``running`` of tool kinds that run, ``constructs`` below those, the shortest first, and
    ``others`` of kinds that do not run.
    """

    kinds: Sequence[str]
    running: Sequence[str]
    constructs: Sequence[str]
    others: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The keys that playbooks write today."""
        return [_last(path) for path in (*self.running, *self.constructs)]

    def hint(self, name: str, known: Sequence[str]) -> str:
        """Return the hint for an unknown key; ``known`` are the keys allowed there. "" if nothing is near."""
        if name in self.kinds:
            return f"try {name}"
        for path in (*self.running, *self.constructs, *self.others):
            if _last(path) == name:
                return f"try {path}"
        if not known:
            return "it has no keys"
        return nearest_or_all(name, known, "keys are") or nearest(name, known, _FAR)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def paths_below(
    starts: Mapping[str, Sequence[Model]], models_in: Callable[[Schema], Sequence[Model]]
) -> tuple[str, ...]:
    """Return a path to every key below the models of each start, the shortest first; each mapping is entered once."""
    found: list[str] = []
    waiting, entered = list(starts.items()), set[str]()
    for path, models in waiting:
        for one in _properties(models):
            found.append(f"{path}.{one.name}")
            inner = [model for model in models_in(one.value) if model.name not in entered]
            entered.update(model.name for model in inner)
            waiting.append((found[-1], inner))
    return tuple(found)


def _properties(models: Sequence[Model]) -> Iterator[Property]:
    for model in models:
        yield from (one for one in model.properties if not one.deprecated)
        yield from _properties(model.borrowed)
