"""Fetches code from other files (``script: {uri, source}``) and pins it in the playbook (dev/decisions/0049).

    parse_playbook(source) ──► with_scripts(found, request, ...) ──► lowered(found)

What a script's address reads is known before a run: the workload with the request over it. The text that is fetched
is then in the config of its task, with its sha256, and so in the graph and its digest: a run never fetches
anything. It is code and no template, checked like code of the playbook, with findings at its own file and line.

Without ``fetch`` only files are read, so that a playbook can be compiled without a network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.bound_names import tasks_with_bound_names
from noetl_compiler.checks.python_code import check_python_text
from noetl_compiler.checks.sql_syntax import check_sql_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, sort_and_dedupe
from noetl_compiler.forecasting.static_scope import known_names
from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.language.scripts import SOURCES, URIS, source_of
from noetl_compiler.language.tools import SQL_LANGUAGES
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.phases import ParsedPlaybook
from noetl_compiler.report import Report
from noetl_compiler.script_files import ScriptError, decoded_script, read_script, script_path
from noetl_compiler.script_requests import Download, download_of, shown_address
from noetl_compiler.source import SourceFile, expressions
from noetl_compiler.syntax import ForeignText, Playbook, Task
from noetl_compiler.value_merge import names_in, overlay, picked

__all__ = ["Download", "Fetch", "ScriptError", "tasks_with_files", "with_scripts"]


Fetch: TypeAlias = Callable[[Download], bytes]
"""Makes the request and returns the body, at most one byte more than language.scripts.MAX_BYTES. Raises ScriptError."""

_RENDERED_LATER = "the address of this script is known only at run time"
_VERBATIM = "the script contains a template, but code that is fetched is not rendered"
_BIND = "pass the value as a parameter, or write the statement in the playbook"
_READS = "its address may read the workload, but nothing that steps set"


class _Script(NamedTuple):
    """A script that was fetched. ``name`` is how diagnostics call it, ``address`` what people are shown."""

    name: str
    address: str
    kind: str
    text: str

    def pinned(self) -> Value:
        """The field ``script`` that a run reads."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        script = {"uri": self.address, "source": {"type": self.kind}, "sha256": digest, "code": self.text}
        return Value({"script": script})


def with_scripts(
    found: ParsedPlaybook, request: Mapping[str, Json], *, fetch: Fetch | None = None, to_run: bool = False
) -> ParsedPlaybook:
    """The playbook with the code of its scripts. NT502 for one that cannot be had, an error where it is ``to_run``."""
    if found.playbook is None or not any(map(_unfetched, _tasks(found.playbook))):
        return found
    pinning = _Pinning(found, known_names(found.playbook.workload, request), fetch, to_run)
    playbook = pinning.playbook(found.playbook)
    diagnostics = sort_and_dedupe((*pinning.report.found, *pinning.findings))
    return replace(found, playbook=playbook, diagnostics=diagnostics, scripts=tuple(pinning.sources.values()))


def tasks_with_files(playbook: Playbook) -> list[Task]:
    """The scripts in files beside the playbook."""
    return [task for task in _tasks(playbook) if _unfetched(task) and _source(task) == "file"]


def _source(task: Task) -> str:
    return source_of(cast("dict[str, Json]", names_in(task.config)["script"]))


def _tasks(playbook: Playbook) -> tuple[Task, ...]:
    return (*playbook.workbook, *(task for step in playbook.steps for task in step.tasks))


def _unfetched(task: Task) -> bool:
    script = names_in(task.config).get("script")
    return isinstance(script, dict) and "code" not in script


@dataclass
class _Pinning:
    """One pass over a playbook. Each script is fetched once, however many tasks have it."""

    found: ParsedPlaybook
    names: Mapping[str, Json]
    fetch: Fetch | None
    to_run: bool
    sources: dict[str, SourceFile] = field(default_factory=dict[str, SourceFile])

    def __post_init__(self) -> None:
        found = self.found
        self.report = Report(found.source, found.diagnostics, found.root, found.tools)
        self.findings: list[Diagnostic] = []
        self._bound: dict[int, frozenset[str] | None] = {}
        self._fetched: dict[Download, bytes] = {}

    def playbook(self, playbook: Playbook) -> Playbook:
        """The playbook with all that can be fetched."""
        self._bound = {id(task): bound for task, bound in tasks_with_bound_names(playbook)}
        steps = (replace(step, tasks=tuple(map(self._task, step.tasks))) for step in playbook.steps)
        return replace(playbook, workbook=tuple(map(self._task, playbook.workbook)), steps=tuple(steps))

    def _task(self, task: Task) -> Task:
        tool = self.found.tools.get(task.kind.text)
        if not _unfetched(task) or tool is None or not tool.has_executor:
            return task
        try:
            script = self._script(task)
        except ScriptError as error:
            self._refuse(task, str(error), error.hint)
            return task
        if script is None:
            return task
        self._check(script, task)
        return replace(task, config=overlay(task.config, script.pinned()))

    def _refuse(self, task: Task, message: str, hint: str) -> None:
        say = self.report.error if self.to_run else self.report.warning
        more = "" if self.to_run else ": the playbook compiles, but a run is refused"
        say(Code.NO_EXECUTOR, _place(task), f"{message}{more}", hint)

    def _script(self, task: Task) -> _Script | None:
        """Return the script of a task; None if it is not fetched here. Raises ScriptError."""
        field = picked(task.config, ["script"])
        try:
            rendered: Json = templates.render(field, self.names)
        except templates.TemplateFailure as failure:
            raise ScriptError(f"{_RENDERED_LATER}: {failure.message}", _READS) from None
        script: dict[str, Json] = rendered["script"]
        kind = source_of(script)
        if kind not in SOURCES:
            raise ScriptError(f'"{kind:.40}" is not a source of scripts', f"the sources are {', '.join(SOURCES)}")
        address = str(next((script[name] for name in URIS if script.get(name)), ""))
        return self._file(address) if kind == "file" else self._download(script, kind, address)

    def _file(self, address: str) -> _Script:
        playbook = self.found.source.file
        text = read_script(playbook, address)
        path = script_path(playbook, address)
        return _Script(str(Path(playbook).parent / path), str(path), "file", text)

    def _download(self, script: Mapping[str, Json], kind: str, address: str) -> _Script | None:
        download = download_of(script, kind, address)
        if self.fetch is None:
            return None
        if download not in self._fetched:
            self._fetched[download] = self.fetch(download)
        shown = shown_address(download.url)
        return _Script(shown, shown, kind, decoded_script(self._fetched[download], shown))

    def _check(self, script: _Script, task: Task) -> None:
        """Findings in a script have their place in it."""
        source = self.sources.setdefault(script.name, SourceFile(script.name, script.text))
        report = Report(source, tools=self.found.tools)
        node = ScalarNode(script.text, script.text, source.span(0, len(script.text)), "plain")
        if task.kind.text == "python":
            check_python_text(ForeignText("script", node), task, self._bound.get(id(task)), report)
        elif task.kind.text in SQL_LANGUAGES:
            check_sql_text(node, task.kind.text, report)
            if opened := next(iter(expressions(script.text)), None):
                report.warning(Code.TEMPLATE_IN_CODE, source.span(*opened), _VERBATIM, _BIND)
        self.findings += report.found


def _place(task: Task) -> Span:
    """The template in the script's address, if there is one; else the task."""
    below = (span for place, span in task.config.templates.items() if place.startswith("/script/"))
    return next(below, task.span)
