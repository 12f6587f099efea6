"""A playbook given on the command line. A wrong one ends the command, with status 2."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import click

from noetl_compiler import compile_file
from noetl_compiler.graph import Graph, Json
from noetl_temporal.cli.exits import WRONG
from noetl_temporal.cli.findings import show_findings
from noetl_temporal.support import unsupported

__all__ = ["Playbook", "check_request", "check_support", "read_playbook"]


class Playbook(NamedTuple):
    """``text`` goes into the catalog with the graph."""

    graph: Graph
    text: str


def read_playbook(file: Path) -> Playbook:
    """Compile ``file``; its diagnostics go to stderr."""
    result = compile_file(file)
    show_findings(result, "nothing was started")
    if result.graph is None:
        sys.exit(WRONG)
    return Playbook(result.graph, result.source.text)


def check_request(request: dict[str, Json], playbook: Playbook) -> None:
    """Refuse a key that the playbook neither declares in its workload nor mentions anywhere."""
    declared: dict[str, Json] = playbook.graph.workload.data or {}
    for key in request:
        if key in declared or re.search(rf"\b{re.escape(key)}\b", playbook.text):
            continue
        near = difflib.get_close_matches(key, declared, n=1)
        known = ", ".join(sorted(declared)) or "no keys"
        hint = f"did you mean {near[0]!r}?" if near else f"its workload has {known}"
        raise click.UsageError(f"the playbook does not use {key!r}: {hint}")


def check_support(playbook: Playbook, tools: Collection[str], *, has_store: bool = True) -> None:
    """Refuse a playbook that needs something which is not here, before it has done anything."""
    problems = unsupported(playbook.graph, tools, has_store=has_store)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.echo("nothing was started", err=True)
        sys.exit(WRONG)
