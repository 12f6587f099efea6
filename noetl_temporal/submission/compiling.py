"""Compiles a playbook for a run: with the installed tools, and with the code of its scripts fetched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from noetl_activities.installed_tools import installed_tools
from noetl_compiler import Result
from noetl_compiler.graph import Json
from noetl_compiler.phases import compile_parsed, parse_playbook
from noetl_compiler.playbook_set import parse_file
from noetl_compiler.script_files import ScriptError
from noetl_compiler.script_requests import Download
from noetl_compiler.scripts import with_scripts
from noetl_compiler.source import SourceFile

__all__ = ["compile_to_run"]


def compile_to_run(file: Path | SourceFile, request: Mapping[str, Json], credentials: Path | None = None) -> Result:
    """Compile a playbook for a run with this request. Scripts are fetched with the credentials in the file
    ``credentials``, or else with those of this process. Must not be called in a thread with a running event loop.
    """
    tools = installed_tools()
    result = parse_playbook(file, tools) if isinstance(file, SourceFile) else parse_file(file, tools)
    return compile_parsed(with_scripts(result, request, fetch=partial(_fetch, credentials), missing_is_error=True))


def _fetch(credentials: Path | None, download: Download) -> bytes:
    # Imported here, as they import the HTTP client and credential sources, which few playbooks need.
    from noetl_activities.script_fetch import fetch_script
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.submission.credential_source import credential_source

    try:
        source = credential_source(credentials)
    except DeploymentError as error:
        raise ScriptError(str(error)) from None
    return fetch_script(download, source)
