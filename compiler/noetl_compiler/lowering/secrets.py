"""``auth`` that names an entry of the keychain: read as a reference to the whole secret."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from noetl_compiler.graph import Json, Sink, Span, Value

__all__ = ["auth_of_keychain", "sinks_of_keychain"]

_NAMES = ("credential", "key", "name")


def auth_of_keychain(auth: Value | None, entries: frozenset[str], span: Span) -> Value | None:
    """``auth: billing`` and ``auth: {source: keychain, key: billing}`` as ``auth: "{{ keychain.billing }}"``."""
    name = _named(auth.data) if auth is not None else None
    if name not in entries:
        return auth
    return Value(f"{{{{ keychain[{name!r}] }}}}", {"": span})


def sinks_of_keychain(sinks: tuple[Sink, ...], entries: frozenset[str]) -> tuple[Sink, ...]:
    """The same for each sink."""
    if not entries:
        return sinks
    return tuple(replace(sink, auth=auth_of_keychain(sink.auth, entries, sink.span)) for sink in sinks)


def _named(data: Json) -> str | None:
    if isinstance(data, str):
        return data
    fields = cast("dict[str, Json]", data) if isinstance(data, dict) else {}
    if fields.get("source") == "keychain":
        return next((str(fields[key]) for key in _NAMES if isinstance(fields.get(key), str)), None)
    return None
