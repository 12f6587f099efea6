"""Jinja's complaints about syntax in the words of this compiler: lower case, no full stop, double quotes, a remedy."""

from __future__ import annotations

import re

from noetl_compiler.templating.locate import OFFSET

__all__ = ["explained"]

_SIGNS = {
    "end of print statement": "}}",
    "end of statement block": "%}",
    "begin of print statement": "{{",
    "begin of statement block": "{%",
}
"""What Jinja calls the braces."""

_QUOTED = re.compile(r"'([^']*)'")
_OPEN_BLOCK = re.compile(r'innermost block that needs to be closed is "(\w+)"')
_EXPLAINED = (
    (re.compile(r'end of template, expected "}}"|got "end of template"'), "the braces are not closed", "write }}"),
    (re.compile(r'end of template, expected "%}"'), "the braces are not closed", "write %}"),
    (re.compile(r'unexpected "[}%]}"$'), "the expression ends too early", "write what is missing, or leave it out"),
)
"""A complaint -> what it means, and the remedy."""

_REMEDIES = (
    (re.compile(r'got "="$'), "write == to compare"),
    (re.compile(r'(?:char|got) "&"'), "write and"),
    (re.compile(r'got "\|"$'), "write or; one | stands before a filter"),
    (re.compile(r'(?:char|got) "!"'), "write not"),
    (re.compile(r'char "\?"'), "write a if condition else b"),
    (re.compile(r'char "\$"'), "write {{ name }} without $"),
)


def explained(message: str) -> tuple[str, str]:
    """What to say, and what to do about it, ``""`` where Jinja's words must do; the place is told elsewhere."""
    told = _QUOTED.sub(r'"\1"', OFFSET.sub("", message[:1].lower() + message[1:].removesuffix(".")))
    for theirs, sign in _SIGNS.items():
        told = told.replace(theirs, sign)
    if found := _OPEN_BLOCK.search(told):
        return f'the block "{found[1]}" is not closed', f"write {{% end{found[1]} %}} behind it"
    for complaint, meaning, remedy in _EXPLAINED:
        if complaint.search(told):
            return meaning, remedy
    return told, next((remedy for complaint, remedy in _REMEDIES if complaint.search(told)), "")
