"""Prepares a registered playbook for a run: compiles its text, and collects the playbooks that it calls.

Only the playbooks that it may call, directly or through others, are read from the catalog. If the path of a call is a
template, that may be any playbook, so the newest version of each is read. In the catalog a version is a number; a call
without a version means the newest one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from noetl_activities.installed_tools import installed_tools
from noetl_compiler import CompileError, Result
from noetl_compiler.calling.callable_playbook import Call, CallablePlaybook, callable_playbook
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls, call_name, has_calls, has_templated_calls
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import parse_playbook
from noetl_compiler.pinning import PinningResult, pin_calls
from noetl_compiler.playbook_set import PlaybookSet
from noetl_temporal.submission.catalog_store import CatalogEntry, find_entries, list_newest, split_version
from noetl_temporal.submission.compiling import compile_to_run

__all__ = ["compile_entry", "compile_error", "pin_called_playbooks"]


async def compile_entry(dsn: str, entry: CatalogEntry, request: Mapping[str, Json]) -> tuple[Graph, PinnedCalls]:
    """Compile a version, and pin the playbooks that it calls. Raises CompileError, DeploymentError."""
    result = await asyncio.to_thread(compile_to_run, entry.source, request)  # scripts are fetched
    if result.graph is None:
        raise compile_error([result])
    calls, problems = await pin_called_playbooks(dsn, entry, result.graph)
    if problems:
        raise compile_error(problems)
    return result.graph, calls


def compile_error(results: Iterable[Result]) -> CompileError:
    """Return one exception with the errors of all results."""
    errors = (
        diagnostic for result in results for diagnostic in result.diagnostics if diagnostic.severity is Severity.ERROR
    )
    return CompileError(tuple(errors))


async def pin_called_playbooks(dsn: str, entry: CatalogEntry, graph: Graph) -> PinningResult:
    """Pin the playbooks that a version calls, and all that they call. Raises DeploymentError."""
    if not has_calls(graph):
        return PinningResult(NO_CALLS, ())
    tools = installed_tools()
    playbooks: dict[str, CallablePlaybook] = {}
    await _add_with_callees(dsn, [entry], playbooks, tools)
    if any(playbook.graph is not None and has_templated_calls(playbook.graph) for playbook in playbooks.values()):
        await _add_with_callees(dsn, await list_newest(dsn), playbooks, tools)
    return pin_calls(playbooks[entry.name].parsed, PlaybookSet(Path(), playbooks.values()))


async def _add_with_callees(
    dsn: str, entries: Iterable[CatalogEntry], playbooks: dict[str, CallablePlaybook], tools: Tools
) -> None:
    """Add the entries, and all playbooks that they call directly or through others, to ``playbooks``."""
    while new_entries := {entry.name: entry for entry in entries if entry.name not in playbooks}:
        new_playbooks = {name: _parse_entry(entry, tools) for name, entry in new_entries.items()}
        playbooks |= new_playbooks
        callees = [
            version
            for playbook in new_playbooks.values()
            for call in playbook.calls
            for version in _requested_versions(call)
        ]
        entries = (await find_entries(dsn, callees)).values() if callees else ()


def _requested_versions(call: Call) -> Iterator[tuple[str, int | None]]:
    """Yield the newest version, which exists if the path does, and the version that the call names."""
    yield call.path, None
    if call.version:
        yield split_version(call_name(call.path, call.version))


def _parse_entry(entry: CatalogEntry, tools: Tools) -> CallablePlaybook:
    playbook = callable_playbook(parse_playbook(entry.source, tools))
    return msgspec.structs.replace(playbook, path=entry.path, version=str(entry.version))
