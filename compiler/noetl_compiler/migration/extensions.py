"""The extensions of v10 over upstream's. dev/extensions.md explains each with a tested example.

Most are keys, which the tables of keys declare; here are those that are a value or a form.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.language.construct import Construct, Extension
from noetl_compiler.language.constructs import CONSTRUCTS, nested_construct
from noetl_compiler.language.constructs.playbook import EXECUTOR_SPEC, PLAYBOOK
from noetl_compiler.language.constructs.routes import FORK, TARGET
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["AGAIN", "DIALECT", "EXTENSIONS", "SET_ADD", "SET_LIST", "extension_note", "written_extensions"]

DIALECT = Extension("executor.spec.dialect", "whose names and defaults count")
SET_LIST = Extension("set as a list", "that a name is set twice")
SET_ADD = Extension("set of name[]", "that a value is added to a list, a number or a mapping")
AGAIN = Extension("rule.then.do: again", "that a call is made again after a success")

_KEYS = (key.extension for construct in CONSTRUCTS.values() for key in construct.keys)
EXTENSIONS = tuple(
    dict.fromkeys((DIALECT, SET_LIST, SET_ADD, AGAIN, *(extension for extension in _KEYS if extension is not None)))
)


def extension_note(extension: Extension, dialect: str) -> str:
    """Return the note that explains an extension to the person who migrates a playbook from ``dialect``."""
    if extension == DIALECT:
        return f'"{extension.path}" keeps the names and defaults of the {dialect} dialect'
    return f'v10 cannot express {extension.gap}: it is written as the extension "{extension.path}"'


def written_extensions(root: MappingNode) -> frozenset[Extension]:
    """Return the extensions that a playbook in the form of v10 uses."""
    return frozenset(_extensions_in(root, PLAYBOOK))


def _extensions_in(node: Node, construct: Construct) -> Iterator[Extension]:
    if isinstance(node, SequenceNode):
        for item in node.items:
            yield from _extensions_in(item, construct)
    elif isinstance(node, MappingNode):
        if construct is TARGET and node.get("then") is not None:
            construct = FORK
        for name, item in node.entries:
            yield from _form_of(construct, name.text, item)
            key = construct.by_name.get(name.text)
            if key is None:
                continue
            if key.extension is not None and name.text == key.name:
                yield key.extension
            inner = nested_construct(key)
            if inner is not None:
                yield from _extensions_in(item, inner)


def _form_of(construct: Construct, name: str, item: Node) -> Iterator[Extension]:
    """Yield the extensions that are a value or a form of a key, rather than a key."""
    if name == "dialect" and construct is EXECUTOR_SPEC:
        yield DIALECT
    elif name == "do" and isinstance(item, ScalarNode) and item.text == "again":
        yield AGAIN
    elif name == "set":
        parts = item.items if isinstance(item, SequenceNode) else (item,)
        if isinstance(item, SequenceNode):
            yield SET_LIST
        if any(key.text.endswith("]") for part in parts if isinstance(part, MappingNode) for key, _ in part.entries):
            yield SET_ADD
