"""The validated call of a transfer task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError
from noetl_activities.tool import Json
from noetl_compiler.language.credentials import NAME_KEYS
from noetl_compiler.language.transfers import (
    DEFAULT_CHUNK,
    DIRECTIONS,
    KIND_KEYS,
    SIDE_AUTH_KEYS,
    SOURCES,
    TARGETS,
    kind_of,
)
from noetl_compiler.language.words import SINK_MODES

__all__ = ["TransferCall", "TransferSide", "transfer_call"]

_MAX_BATCH_ROWS = 100_000
_ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType({"postgres": ("pg",), "snowflake": ("sf",)})
_TRANSFER_KEYS = frozenset({*KIND_KEYS, *SIDE_AUTH_KEYS, "mode"})


class TransferSide(NamedTuple):
    """The source or the target: a ``kind`` of tool, the fields of its call, and its credential."""

    kind: str
    config: dict[str, Json]
    auth: Json


class TransferCall(NamedTuple):
    """A call of the tool transfer.

    ``batch_size`` is the maximum number of rows per batch; ``mode`` is one of the modes of sinks.
    """

    source: TransferSide
    target: TransferSide
    batch_size: int
    mode: str


def transfer_call(config: Mapping[str, Json], auth: Json) -> TransferCall:
    """Validate the call. Raises ConfigError."""
    kinds = DIRECTIONS.get(str(config.get("direction")), (None, None))
    source, target = _side_fields(config, "source", kinds[0]), _side_fields(config, "target", kinds[1])
    if config.get("mapping") and not target.get("mapping"):
        target = {**target, "mapping": config["mapping"]}
    mode = str(target.get("mode") or config.get("mode") or "append").lower()
    if mode not in SINK_MODES:
        raise ConfigError(f"mode is {mode!r:.60}: write one of {', '.join(SINK_MODES)}")
    return TransferCall(
        _side("source", source, SOURCES, auth),
        _side("target", target, TARGETS, auth),
        _batch_size(config.get("chunk_size")),
        SINK_MODES[mode],
    )


def _side_fields(config: Mapping[str, Json], name: str, kind: str | None) -> dict[str, Json]:
    """Return the fields of the source or the target. ``kind`` is the default type, from the direction."""
    value: Json = config.get(name)
    if not isinstance(value, dict):
        raise ConfigError(f"a transfer needs a {name}: a mapping with a type")
    fields = cast("dict[str, Json]", value)
    return fields if kind is None or kind_of(fields) else {**fields, KIND_KEYS[0]: kind}


def _side(name: str, fields: dict[str, Json], kinds: tuple[str, ...], auth: Json) -> TransferSide:
    kind = kind_of(fields)
    if kind is None or kind not in kinds:
        raise ConfigError(f"the type of the {name} is {kind!r:.60}: write one of {', '.join(kinds)}")
    credential: Json = next((fields[key] for key in SIDE_AUTH_KEYS if fields.get(key)), None) or _task_credential(
        name, kind, auth
    )
    config = {key: value for key, value in fields.items() if key not in _TRANSFER_KEYS}
    return TransferSide(kind, config, _type_from_tool(credential))


def _task_credential(name: str, kind: str, auth: Json) -> Json:
    """Return the credential of the task for the source or the target: the one with its alias, or the only one."""
    if not isinstance(auth, dict):
        return auth
    credentials = cast("dict[str, Json]", auth)
    credential: Json = next(
        (credentials[key] for key in (name, kind, *_ALIASES.get(kind, ())) if credentials.get(key)), None
    )
    return credential or credential_name({key: credentials[key] for key in NAME_KEYS if key in credentials})


def _type_from_tool(auth: Json) -> Json:
    """Return ``auth`` with ``type`` instead of ``tool``, its name in older playbooks."""
    if not isinstance(auth, dict) or "tool" not in auth:
        return cast("Json", auth)
    fields = cast("dict[str, Json]", auth)
    return {"type": fields["tool"], **{key: value for key, value in fields.items() if key != "tool"}}


def _batch_size(value: Json) -> int:
    try:
        size = int(value or DEFAULT_CHUNK)
    except (TypeError, ValueError):
        size = 0
    if not 1 <= size <= _MAX_BATCH_ROWS:
        raise ConfigError(f"chunk_size is {value!r:.60}: write a whole number from 1 to {_MAX_BATCH_ROWS:,}")
    return size
