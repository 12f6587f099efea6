"""Small playbooks, and the places of the findings in them."""

from __future__ import annotations

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"


def marked(text: str, code: Code) -> list[str]:
    """The texts at the places of the findings with a code."""
    source = SourceFile("", text)
    return [source.slice(found.span) for found in compile_text(text).diagnostics if found.code is code]


def steps(*lines: str, head: str = "") -> str:
    """A v10 playbook whose steps are flow mappings, one a line."""
    return f"{HEAD}{head}workflow:\n" + "".join(f"  - {line}\n" for line in lines)


def one(tool: str, more: str = "", head: str = "workload: {known: 1}\n") -> str:
    """A v10 playbook of one step with a tool and more fields."""
    return steps(f"{{step: start, {more}tool: {tool}}}", head=head)
