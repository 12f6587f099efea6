"""Reads and checks the playbook of a command line. The command exits with status 2 if the playbook has errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.diagnostics import Diagnostic, did_you_mean_or_list, excerpt
from noetl_compiler.graph import Graph, Json, Span
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls, has_calls
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.source import SourceFile
from noetl_temporal.cli.exits import WRONG
from noetl_temporal.cli.payload import truncate
from noetl_temporal.cli.show_diagnostics import credential_spans, show_diagnostics
from noetl_temporal.cli.sources import stdin_source
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.submission.compiling import compile_to_run
from noetl_temporal.submission.unsupported import check_calls, frame_warnings

__all__ = ["NOTHING_STARTED", "Playbook", "check_request", "check_support", "read_playbook", "refuse_to_start"]

_MAX_KEY_CHARACTERS = 200
NOTHING_STARTED = "nothing was started"


class Playbook(NamedTuple):
    """A compiled playbook.

    ``text`` is its source, ``credential_spans`` are the spans of literal credentials in it, ``calls`` the playbooks
    that it may call.
    """

    graph: Graph
    text: str
    credential_spans: tuple[Span, ...] = ()
    calls: PinnedCalls = NO_CALLS

    @property
    def graphs(self) -> Sequence[Graph]:
        """Its own graph and those of the playbooks that it calls."""
        return self.calls.closure(self.graph)

    def excerpt(self, failure: Failure) -> list[str]:
        """Return the line of a failure with a marker below it; literal credentials are masked."""
        if not failure.line or failure.file != self.graph.source.file:
            return []
        source = SourceFile(failure.file, self.text)
        text = source.line(failure.line)
        last = max(failure.col + 1, len(text.rstrip()) + 1)
        return excerpt(Span(failure.line, failure.col, failure.line, last), source, self.credential_spans)


def read_playbook(
    file: Path, request: Mapping[str, Json], folder: Path | None = None, credentials: Path | None = None
) -> Playbook:
    """Compile ``file``, or stdin if it is ``-``, for a run with this request, and print its diagnostics to stderr.

    The playbooks that it calls are looked up in ``folder``, by default that of ``file``, and the credentials of
    its scripts in the file ``credentials``. Raises click.UsageError.
    """
    is_stdin = str(file) == "-"
    result = compile_to_run(stdin_source() if is_stdin else file, request, credentials)
    show_diagnostics(result, NOTHING_STARTED)
    if result.graph is None:
        sys.exit(WRONG)
    calls = NO_CALLS
    if has_calls(result.graph):
        if is_stdin:
            raise click.UsageError("a playbook from stdin cannot call other playbooks: name its file")
        calls = _pin_calls(file, folder or file.parent, installed_tools(), result.diagnostics)
    return Playbook(result.graph, result.source.text, credential_spans(result), calls)


def _pin_calls(file: Path, folder: Path, tools: Tools, diagnostics: Sequence[Diagnostic]) -> PinnedCalls:
    """Compile the playbooks that ``file`` calls. ``diagnostics`` have been printed and are not printed again."""
    from noetl_compiler.pinning import pin_file  # few playbooks call others

    calls, problems = pin_file(file, folder, tools)
    for problem in problems:
        new_diagnostics = tuple(diagnostic for diagnostic in problem.diagnostics if diagnostic not in diagnostics)
        show_diagnostics(msgspec.structs.replace(problem, diagnostics=new_diagnostics), NOTHING_STARTED)
    if problems:
        sys.exit(WRONG)
    return calls


def check_request(request: dict[str, Json], playbook: Playbook) -> None:
    """Raise click.UsageError for a key that the playbook neither declares in its workload nor mentions."""
    workload: dict[str, Json] = playbook.graph.workload.data or {}
    for key in request:
        if key in workload or _mentions(playbook.text, key):
            continue
        hint = did_you_mean_or_list(key, workload, "its workload has")
        raise click.UsageError(f"the playbook does not use {truncate(key)!r}{f': {hint}' if hint else ''}")


def _mentions(text: str, key: str) -> bool:
    """Whether the text contains the key as a word. Long keys are not searched, because that is slow."""
    return len(key) <= _MAX_KEY_CHARACTERS and re.search(rf"\b{re.escape(key)}\b", text) is not None


def check_support(playbook: Playbook, tools: Collection[str], *, has_store: bool = True) -> None:
    """Exit with WRONG if the playbook needs what is not supported. Without a payload store, warn about frames."""
    for warning in () if has_store else frame_warnings(playbook.graph, playbook.calls):
        click.echo(warning, err=True)
    refuse_to_start(check_calls(playbook.graph, playbook.calls, tools, has_store=has_store)[1])


def refuse_to_start(problems: Sequence[str]) -> None:
    """Print the problems and exit with WRONG, if there are any."""
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.echo(NOTHING_STARTED, err=True)
        sys.exit(WRONG)
