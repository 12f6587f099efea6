"""Read ``auth`` in all its spellings and forms.

auth: pg_local                                    a credential by its name
auth: {type: postgres, credential: pg_local}      the same in full
auth: {pg: {type: postgres, key: pg_local}}       several by alias; a tool that takes one credential uses the only one
credential: a, credentials: {target: {key: b}}    the tool's own credential, and others by alias
"""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Value
from noetl_compiler.language import keys
from noetl_compiler.language.tools import SEVERAL_CREDENTIALS
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node, value_of

__all__ = ["auth_value", "has_alias", "read_auth"]

_NOT_ALIASES = frozenset({"inline", "fields", "data", "headers"})
"""Keys whose value may be a mapping, but which are not aliases."""


def read_auth(fields: Fields, kind: str) -> Value | None:
    """Return the credentials of a tool of this kind; None if it names none."""
    credential, others = fields.node.get("credential"), fields.node.get("credentials")
    if isinstance(credential, ScalarNode) and isinstance(others, MappingNode):
        fields.take_remaining({"credential", "credentials"})
        key = string_node("credential", credential.span)
        return value_of(MappingNode(((key, credential), *others.entries), others.span))
    node = fields.node_of(*keys.AUTH)
    if isinstance(node, SequenceNode) or (isinstance(node, ScalarNode) and not isinstance(node.value, str)):
        message, hint = '"auth" must be a string or a mapping', "write the name of a credential, or several by alias"
        fields.report.error(Code.WRONG_TYPE, node.span, message, hint)
    return auth_value(node, kind)


def auth_value(node: Node | None, kind: str) -> Value | None:
    """Return credentials in the form that the tool expects: without an alias if it takes only one."""
    if node is None:
        return None
    return value_of(node.entries[0][1] if isinstance(node, MappingNode) and has_alias(node, kind) else node)


def has_alias(node: MappingNode, kind: str) -> bool:
    """Whether this is a single credential with an alias, for a tool that expects one credential."""
    if kind in SEVERAL_CREDENTIALS or len(node.entries) != 1:
        return False
    key, value = node.entries[0]
    return isinstance(value, MappingNode) and key.text not in _NOT_ALIASES
