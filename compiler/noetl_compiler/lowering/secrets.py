"""Replace an ``auth`` that names a keychain entry by a template for the whole secret."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from noetl_compiler.graph import Json, Sink, Span, Value
from noetl_compiler.language.credentials import NAME_KEYS

__all__ = ["resolve_keychain_auth", "resolve_keychain_sinks"]


def resolve_keychain_auth(auth: Value | None, entries: frozenset[str], span: Span) -> Value | None:
    """Rewrite ``auth: billing`` or ``auth: {source: keychain, key: billing}`` to ``auth: "{{ keychain.billing }}"``."""
    name = _entry_name(auth.data) if auth is not None else None
    if name not in entries:
        return auth
    return Value(f"{{{{ keychain[{name!r}] }}}}", {"": span})


def resolve_keychain_sinks(sinks: tuple[Sink, ...], entries: frozenset[str]) -> tuple[Sink, ...]:
    """Rewrite the ``auth`` of each sink in the same way."""
    if not entries:
        return sinks
    return tuple(replace(sink, auth=resolve_keychain_auth(sink.auth, entries, sink.span)) for sink in sinks)


def _entry_name(data: Json) -> str | None:
    if isinstance(data, str):
        return data
    fields = cast("dict[str, Json]", data) if isinstance(data, dict) else {}
    if fields.get("source") == "keychain":
        return next((str(fields[key]) for key in NAME_KEYS if isinstance(fields.get(key), str)), None)
    return None
