"""Fetch code from other files (``script: {uri, source}``) and pin it in the playbook (dev/decisions/0049).

    parse_playbook(source) ──► with_scripts(parsed, request, ...) ──► compile_parsed(parsed)

The address of a script may only read what is known before a run: the request merged over the workload. The fetched text
becomes part of the config of its task, with its sha256, and so of the graph and its digest: a run never fetches
anything. It is code and never a template. It is checked like code in the playbook, with diagnostics in its own file.

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
from noetl_compiler.language.scripts import SOURCES, URI_KEYS, source_of
from noetl_compiler.language.tools import SQL_LANGUAGES
from noetl_compiler.nodes import string_node
from noetl_compiler.phases import ParsedPlaybook
from noetl_compiler.report import Report
from noetl_compiler.script_files import ScriptError, decode_script, read_script, script_path
from noetl_compiler.script_requests import Download, read_download, redacted_address
from noetl_compiler.source import SourceFile, expression_ranges
from noetl_compiler.syntax import ForeignText, Playbook, Task
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.value_merge import mapping_of, overlay, select_names

__all__ = ["Download", "Fetch", "ScriptError", "tasks_with_files", "with_scripts"]


Fetch: TypeAlias = Callable[[Download], bytes]
"""Makes the request and returns the body, at most one byte more than language.scripts.MAX_BYTES. Raises ScriptError."""

_UNKNOWN_ADDRESS = "the address of this script is known only at run time"
_NOT_RENDERED = "the script contains a template, but code that is fetched is not rendered"
_BIND_HINT = "pass the value as a parameter, or write the statement in the playbook"
_ADDRESS_HINT = "its address may read the workload, but nothing that steps set"


class _Script(NamedTuple):
    """A script that was fetched. ``name`` is its name in diagnostics, ``address`` is shown to people."""

    name: str
    address: str
    kind: str
    text: str

    def to_value(self) -> Value:
        """Return the config field ``script`` that a run reads."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        script = {"uri": self.address, "source": {"type": self.kind}, "sha256": digest, "code": self.text}
        return Value({"script": script})


def with_scripts(
    parsed: ParsedPlaybook, request: Mapping[str, Json], *, fetch: Fetch | None = None, missing_is_error: bool = False
) -> ParsedPlaybook:
    """Return the playbook with the code of its scripts. Report NT502 for each that cannot be fetched: an error if
    ``missing_is_error``, as before a run, otherwise a warning.
    """
    if parsed.playbook is None or not any(map(_has_unfetched_script, all_tasks(parsed.playbook))):
        return parsed
    pinner = _ScriptPinner(parsed, known_names(parsed.playbook.workload, request), fetch, missing_is_error)
    playbook = pinner.pin(parsed.playbook)
    diagnostics = sort_and_dedupe((*pinner.report.diagnostics, *pinner.script_diagnostics))
    return replace(parsed, playbook=playbook, diagnostics=diagnostics, scripts=tuple(pinner.sources.values()))


def tasks_with_files(playbook: Playbook) -> list[Task]:
    """Return the tasks whose scripts are in files beside the playbook."""
    return [task for task in all_tasks(playbook) if _has_unfetched_script(task) and _source_type(task) == "file"]


def _source_type(task: Task) -> str:
    return source_of(cast("dict[str, Json]", mapping_of(task.config)["script"]))


def _has_unfetched_script(task: Task) -> bool:
    script = mapping_of(task.config).get("script")
    return isinstance(script, dict) and "code" not in script


@dataclass
class _ScriptPinner:
    """Pins the scripts of one playbook. Each is fetched once, however many tasks use it."""

    parsed: ParsedPlaybook
    scope: Mapping[str, Json]
    fetch: Fetch | None
    missing_is_error: bool
    sources: dict[str, SourceFile] = field(default_factory=dict[str, SourceFile])

    def __post_init__(self) -> None:
        parsed = self.parsed
        self.report = Report(parsed.source, parsed.diagnostics, parsed.root, parsed.tools)
        self.script_diagnostics: list[Diagnostic] = []
        self._bound_names: dict[int, frozenset[str] | None] = {}
        self._fetched: dict[Download, bytes] = {}

    def pin(self, playbook: Playbook) -> Playbook:
        """Return the playbook with the scripts that can be fetched."""
        self._bound_names = {id(task): task_names for task, task_names in tasks_with_bound_names(playbook)}
        steps = (replace(step, tasks=tuple(map(self._pin_task, step.tasks))) for step in playbook.steps)
        return replace(playbook, workbook=tuple(map(self._pin_task, playbook.workbook)), steps=tuple(steps))

    def _pin_task(self, task: Task) -> Task:
        tool = self.parsed.tools.get(task.kind.text)
        if not _has_unfetched_script(task) or tool is None or not tool.has_executor:
            return task
        try:
            script = self._fetch_script(task)
        except ScriptError as error:
            self._report_refusal(task, str(error), error.hint)
            return task
        if script is None:
            return task
        self._check_script(script, task)
        return replace(task, config=overlay(task.config, script.to_value()))

    def _report_refusal(self, task: Task, message: str, hint: str) -> None:
        report = self.report.error if self.missing_is_error else self.report.warning
        note = "" if self.missing_is_error else ": the playbook compiles, but a run is refused"
        report(Code.NO_EXECUTOR, _address_span(task), f"{message}{note}", hint)

    def _fetch_script(self, task: Task) -> _Script | None:
        """Return the script of a task; None if it is not fetched here. Raises ScriptError."""
        script_field = select_names(task.config, ["script"])
        try:
            rendered_field: Json = templates.render(script_field, self.scope)
        except templates.TemplateFailure as failure:
            raise ScriptError(f"{_UNKNOWN_ADDRESS}: {failure.message}", _ADDRESS_HINT) from None
        script: dict[str, Json] = rendered_field["script"]
        kind = source_of(script)
        if kind not in SOURCES:
            raise ScriptError(f'"{kind:.40}" is not a source of scripts', f"the sources are {', '.join(SOURCES)}")
        address = str(next((script[name] for name in URI_KEYS if script.get(name)), ""))
        return self._read_file(address) if kind == "file" else self._fetch_download(script, kind, address)

    def _read_file(self, address: str) -> _Script:
        playbook = self.parsed.source.file
        text = read_script(playbook, address)
        path = script_path(playbook, address)
        return _Script(str(Path(playbook).parent / path), str(path), "file", text)

    def _fetch_download(self, script: Mapping[str, Json], kind: str, address: str) -> _Script | None:
        download = read_download(script, kind, address)
        if self.fetch is None:
            return None
        if download not in self._fetched:
            self._fetched[download] = self.fetch(download)
        redacted_url = redacted_address(download.url)
        return _Script(redacted_url, redacted_url, kind, decode_script(self._fetched[download], redacted_url))

    def _check_script(self, script: _Script, task: Task) -> None:
        """Check the code of a script. Its diagnostics refer to the script, not to the playbook."""
        source = self.sources.setdefault(script.name, SourceFile(script.name, script.text))
        report = Report(source, tools=self.parsed.tools)
        node = string_node(script.text, source.span(0, len(script.text)))
        if task.kind.text == "python":
            check_python_text(ForeignText("script", node), task, self._bound_names.get(id(task)), report)
        elif task.kind.text in SQL_LANGUAGES:
            check_sql_text(node, task.kind.text, report)
            if template_range := next(iter(expression_ranges(script.text)), None):
                report.warning(Code.TEMPLATE_IN_CODE, source.span(*template_range), _NOT_RENDERED, _BIND_HINT)
        self.script_diagnostics += report.diagnostics


def _address_span(task: Task) -> Span:
    """Return the span of the template in the address of the script, if there is one; else that of the task."""
    spans = (span for pointer, span in task.config.templates.items() if pointer.startswith("/script/"))
    return next(spans, task.span)
