"""The extensions of v10 over upstream's. dev/extensions.md explains each with a tested example.

Most are keys, which the tables of keys declare; here are those that are a value or a form.
"""

from __future__ import annotations

from noetl_compiler.language.construct import Extension
from noetl_compiler.language.constructs import CONSTRUCTS

__all__ = ["AGAIN", "DIALECT", "EXTENSIONS", "SET_ADD", "SET_LIST", "extension_note"]

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
