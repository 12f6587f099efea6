"""Hints for unknown keys: where the key belongs, or the nearest known key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noetl_compiler.diagnostics import did_you_mean, did_you_mean_or_list, most_similar
from noetl_compiler.schema.model import Model, Property, Schema

__all__ = ["KeyPaths", "paths_below"]

_LEAST_SIMILARITY = 0.4
"""The least similarity of a suggested key, if none is very similar."""


@dataclass(frozen=True)
class KeyPaths:
    """The paths to all keys: those of supported tool kinds, those below constructs, the shortest first, and those of
    unsupported tool kinds. ``kinds`` are all tool kinds.
    """

    kinds: Sequence[str]
    supported: Sequence[str]
    constructs: Sequence[str]
    unsupported: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The names of all keys, without those of unsupported kinds."""
        return [_last_name(path) for path in (*self.supported, *self.constructs)]

    def hint(self, name: str, known_names: Sequence[str], parent: str = "") -> str:
        """Return the hint for an unknown key below the path ``parent``; "" if no key is similar.

        ``known_names`` are the keys allowed there.
        """
        if name in self.kinds:
            return f"try {name}"
        if path := self._path_to(name, parent):
            return f"try {path}"
        if not known_names:
            return "it has no keys"
        if hint := did_you_mean(name, known_names):
            return hint
        if similar := most_similar(name, self.names):
            return f'did you mean "{self._path_to(similar, parent)}"?'
        return did_you_mean_or_list(name, known_names, "keys are") or did_you_mean(name, known_names, _LEAST_SIMILARITY)

    def _path_to(self, name: str, parent: str) -> str:
        """Return the shortest path to a key, preferably below ``parent``; "" if there is none."""
        for group in (self.supported, self.constructs, self.unsupported):
            paths = [path for path in group if _last_name(path) == name]
            if paths:
                return min(paths, key=lambda path: (path.count("."), not _is_below(path, parent)))
        return ""


def _is_below(path: str, parent: str) -> bool:
    return path.startswith(f"{parent}.")


def _last_name(path: str) -> str:
    return path.rpartition(".")[2]


def paths_below(
    starts: Mapping[str, Sequence[Model]], models_in: Callable[[Schema], Sequence[Model]]
) -> tuple[str, ...]:
    """Return a path to every key below the models of each start, the shortest first; each mapping is entered once."""
    paths: list[str] = []
    queue, visited_names = list(starts.items()), set[str]()
    for path, models in queue:
        for key in _properties(models):
            paths.append(f"{path}.{key.name}")
            inner = [model for model in models_in(key.value) if model.name not in visited_names]
            visited_names.update(model.name for model in inner)
            queue.append((paths[-1], inner))
    return tuple(paths)


def _properties(models: Sequence[Model]) -> Iterator[Property]:
    for model in models:
        yield from (key for key in model.properties if not key.deprecated)
        yield from _properties(model.included)
