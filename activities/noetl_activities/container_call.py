"""The validated call of a container task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from noetl_activities.errors import ConfigError
from noetl_activities.program_arguments import as_argument, variable_name
from noetl_activities.tool import Json, Request
from noetl_compiler.language.scripts import code_in

__all__ = ["ContainerCall", "container_call"]

_IMAGE = re.compile(r"[a-z0-9][\w.-]*(?::\d+)?(?:/[\w.-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
"""The name of an image, which must not start with a dash like an option of the engine."""

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)", re.ASCII)
_MEMORY: Mapping[str, int] = MappingProxyType(
    {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
)
_CPU: Mapping[str, float] = MappingProxyType({"": 1.0, "m": 0.001})


class ContainerCall(NamedTuple):
    """A call of the tool container.

    ``words`` is the command with its arguments, empty for that of the image. ``memory`` in bytes; limits are None if
    not set.
    """

    image: str
    words: list[str]
    environment: dict[str, str]
    memory: int | None
    cpus: float | None


def container_call(request: Request) -> ContainerCall:
    """Validate the call. Raises ConfigError, which names the field but no value: it may be a secret."""
    config = _flat(request.config)
    image: Json = config.get("image")
    if not isinstance(image, str) or not _IMAGE.fullmatch(image):
        raise ConfigError("a container task needs an image: NAME, NAME:TAG or HOST/NAME:TAG")
    if config.get("files"):
        raise ConfigError('"files" cannot be mounted here: put them into the image, or pass them with env')
    limits = _mapping("resources.limits", _mapping("resources", config.get("resources")).get("limits"))
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ContainerCall(
        image,
        _words(config),
        dict([*_variables("input", request.input), *_variables("env", config.get("env"))]),
        None if memory is None else int(_quantity("memory", memory, _MEMORY)),
        None if cpu is None else _quantity("cpu", cpu, _CPU),
    )


def _flat(config: dict[str, Json]) -> dict[str, Json]:
    """Return the config with the fields below ``runtime``, where older playbooks have them, at the top level."""
    return {**_mapping("runtime", config.get("runtime")), **config}


def _mapping(field: str, given: Json) -> dict[str, Json]:
    if given is not None and not isinstance(given, dict):
        raise ConfigError(f'"{field}" must be a mapping')
    return cast("dict[str, Json]", given or {})


def _words(config: Mapping[str, Json]) -> list[str]:
    script = code_in(config.get("script"))
    if isinstance(script, str):
        return ["sh", "-c", script, "script", *_listed("args", config.get("args"))]
    return [*_listed("command", config.get("command")), *_listed("args", config.get("args"))]


def _listed(field: str, given: Json) -> list[str]:
    """Return a list of words; text is one line for a shell."""
    if given is None:
        return []
    if isinstance(given, str):
        return ["sh", "-c", given] if field == "command" else [given]
    if not isinstance(given, list):
        raise ConfigError(f'"{field}" must be text or a list of texts')
    return [as_argument(argument, f'"{field}"') for argument in cast("list[Json]", given)]


def _variables(field: str, given: Json) -> Iterator[tuple[str, str]]:
    """Variables from a mapping, or from a list of ``{name, value}`` as in Kubernetes."""
    if isinstance(given, list):
        pairs = [
            (_mapping(field, variable).get("name"), _mapping(field, variable).get("value"))
            for variable in cast("Any", given)
        ]
    else:
        pairs = list(_mapping(field, given).items())
    for given_name, value in pairs:
        name = variable_name(field, given_name)
        text = as_argument(value, f'the variable {name} of "{field}"')
        if "\n" in text:
            raise ConfigError(f'the variable {name} of "{field}" has several lines, which container engines reject')
        yield name, text


def _quantity(field: str, given: Json, units: Mapping[str, float]) -> float:
    """Parse a quantity as Kubernetes does: ``500m`` processors, ``128Mi`` of memory."""
    match = _QUANTITY.fullmatch(str(given))
    if match is None or match[2] not in units or float(match[1]) == 0:
        raise ConfigError(f'"{field}" of "resources.limits" must be a number with one of the units {_named(units)}')
    return float(match[1]) * units[match[2]]


def _named(units: Mapping[str, float]) -> str:
    return ", ".join(filter(None, units))
