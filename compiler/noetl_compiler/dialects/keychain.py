"""Read ``keychain``: the secrets of a playbook, each with its provider."""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import KeychainEntry
from noetl_compiler.language.constructs.playbook import KEYCHAIN_ENTRY
from noetl_compiler.nodes import MappingNode, Node, value_of
from noetl_compiler.report import Report

__all__ = ["read_keychain"]


def read_keychain(fields: Fields) -> tuple[KeychainEntry, ...]:
    """Read the entries of the root's ``keychain``."""
    entries = (_read_entry(node, fields.report) for node in fields.items("keychain"))
    return tuple(entry for entry in entries if entry is not None)


def _read_entry(node: Node, report: Report) -> KeychainEntry | None:
    """Read ``{name, kind, ...}``; the other fields depend on the kind."""
    mapping = node if isinstance(node, MappingNode) else MappingNode((), node.span)
    fields = ConstructFields(mapping, report, KEYCHAIN_ENTRY)
    name, kind = fields.required_name("name"), fields.text("kind")
    config = value_of(MappingNode(fields.take_remaining(None), node.span))
    return KeychainEntry(name.text, kind, node.span, config) if name else None
