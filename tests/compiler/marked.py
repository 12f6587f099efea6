"""Small playbooks, and the places of the findings in them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from noetl_compiler import compile_file, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.phases import parse_playbook
from noetl_compiler.playbook_set import read_folder, with_call_diagnostics
from noetl_compiler.reader import read_file
from noetl_compiler.source import SourceFile

CORPUS = Path(__file__).parent / "corpus"

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"


def marked_parts(text: str, code: Code) -> list[str]:
    """The texts at the places of the findings with a code."""
    source = SourceFile("", text)
    return [source.slice(diagnostic.span) for diagnostic in compile_text(text).diagnostics if diagnostic.code is code]


def steps(*lines: str, head: str = "") -> str:
    """A v10 playbook whose steps are flow mappings, one a line."""
    return f"{HEAD}{head}workflow:\n" + "".join(f"  - {line}\n" for line in lines)


def playbook_of(tool: str, more: str = "", head: str = "workload: {known: 1}\n") -> str:
    """A v10 playbook of one step with a tool and more fields."""
    return steps(f"{{step: start, {more}tool: {tool}}}", head=head)


def cases(folder: str) -> list[Path]:
    """Those of ``corpus/ok`` or ``corpus/err``: a playbook, or a folder that is a catalog."""
    return sorted(path for path in (CORPUS / folder).iterdir() if path.suffix == ".yaml" or path.is_dir())


def playbooks_in(path: Path) -> list[Path]:
    """The files of a case."""
    return sorted(path.glob("*.yaml")) if path.is_dir() else [path]


def findings_in(path: Path) -> list[Diagnostic]:
    """All diagnostics of a case, with file names without folders, also in hints."""
    diagnostics = compile_file(path).diagnostics if path.is_file() else _found_among(path)
    return [
        replace(diagnostic, file=Path(diagnostic.file).name, hint=diagnostic.hint.replace(f"{path}/", ""))
        for diagnostic in diagnostics
    ]


def _found_among(folder: Path) -> list[Diagnostic]:
    catalog = read_folder(folder)
    parsed = [parse_playbook(read_file(path)[0]) for path in playbooks_in(folder)]
    return [found for diagnostic in parsed for found in with_call_diagnostics(diagnostic, catalog).diagnostics]
