"""A playbook's file to the graph that is to run: with the installed tools, and with the code of its scripts fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from noetl_activities.installed_tools import installed_tools
from noetl_compiler import Result
from noetl_compiler.catalog import parse_file
from noetl_compiler.graph import Json
from noetl_compiler.phases import lowered, parse_playbook
from noetl_compiler.scripts import Download, with_scripts
from noetl_compiler.source import SourceFile

__all__ = ["compile_to_run"]


def compile_to_run(file: Path | SourceFile, request: Mapping[str, Json]) -> Result:
    """Compile a file, or text that was read, for a run with this request; in no thread with a running event loop."""
    tools = installed_tools()
    found = parse_playbook(file, tools) if isinstance(file, SourceFile) else parse_file(file, tools)
    return lowered(with_scripts(found, request, fetch=_fetch, to_run=True))


def _fetch(download: Download) -> bytes:
    from noetl_activities.script_fetch import fetch_script  # imports the HTTP client, which few playbooks need here

    return fetch_script(download)
