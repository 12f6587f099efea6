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

    ``command`` includes the arguments; if it is empty, the command of the image runs. ``memory`` is in bytes. Limits
    that are not set are None.
    """

    image: str
    command: list[str]
    environment: dict[str, str]
    memory: int | None
    cpus: float | None


def container_call(request: Request) -> ContainerCall:
    """Validate the call. Raises ConfigError, which names the field but no value: it may be a secret."""
    config = _merge_runtime(request.config)
    image: Json = config.get("image")
    if not isinstance(image, str) or not _IMAGE.fullmatch(image):
        raise ConfigError("a container task needs an image: NAME, NAME:TAG or HOST/NAME:TAG")
    if config.get("files"):
        raise ConfigError('"files" cannot be mounted here: put them into the image, or pass them with env')
    limits = _mapping("resources.limits", _mapping("resources", config.get("resources")).get("limits"))
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ContainerCall(
        image,
        _command(config),
        dict([*_environment_variables("input", request.input), *_environment_variables("env", config.get("env"))]),
        None if memory is None else int(_parse_quantity("memory", memory, _MEMORY)),
        None if cpu is None else _parse_quantity("cpu", cpu, _CPU),
    )


def _merge_runtime(config: dict[str, Json]) -> dict[str, Json]:
    """Return the config with the fields of ``runtime`` at the top level. Older playbooks have them there."""
    return {**_mapping("runtime", config.get("runtime")), **config}


def _mapping(field: str, value: Json) -> dict[str, Json]:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f'"{field}" must be a mapping')
    return cast("dict[str, Json]", value or {})


def _command(config: Mapping[str, Json]) -> list[str]:
    script = code_in(config.get("script"))
    if isinstance(script, str):
        return ["sh", "-c", script, "script", *_string_list("args", config.get("args"))]
    return [*_string_list("command", config.get("command")), *_string_list("args", config.get("args"))]


def _string_list(field: str, value: Json) -> list[str]:
    """Return the arguments of a program. A string is one argument, but as a command it is a line for a shell."""
    if value is None:
        return []
    if isinstance(value, str):
        return ["sh", "-c", value] if field == "command" else [value]
    if not isinstance(value, list):
        raise ConfigError(f'"{field}" must be a string or a list of strings')
    return [as_argument(argument, f'"{field}"') for argument in cast("list[Json]", value)]


def _environment_variables(field: str, variables: Json) -> Iterator[tuple[str, str]]:
    """Yield the variables of a mapping, or of a list of ``{name, value}`` as in Kubernetes."""
    if isinstance(variables, list):
        pairs = [
            (_mapping(field, variable).get("name"), _mapping(field, variable).get("value"))
            for variable in cast("Any", variables)
        ]
    else:
        pairs = list(_mapping(field, variables).items())
    for raw_name, value in pairs:
        name = variable_name(field, raw_name)
        text = as_argument(value, f'the variable {name} of "{field}"')
        if "\n" in text:
            raise ConfigError(f'the variable {name} of "{field}" has several lines, which container engines reject')
        yield name, text


def _parse_quantity(field: str, value: Json, units: Mapping[str, float]) -> float:
    """Parse a quantity as Kubernetes does: ``500m`` processors, ``128Mi`` of memory."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in units or float(match[1]) == 0:
        raise ConfigError(
            f'"{field}" of "resources.limits" must be a number with one of the units {_unit_names(units)}'
        )
    return float(match[1]) * units[match[2]]


def _unit_names(units: Mapping[str, float]) -> str:
    return ", ".join(filter(None, units))
