"""The recorded files: one run of one workflow each, ``<recording>.<number>.<workflow>.json``, one event a line.

They are histories as ``temporal workflow show --output json`` writes them, so ``noetl replay FILE`` reads them too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import WorkflowHistory

__all__ = ["FOLDER", "recording_of", "remove", "write"]

_PAYLOAD = re.compile(r'"data": *"([A-Za-z0-9+/=]+)"')
_WORKER = re.compile(rb'"worker":"[^"]+"')

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "replay" / "histories"


def write(name: str, histories: Sequence[WorkflowHistory]) -> int:
    """Write the histories in the order of their files' numbers; return the number of bytes."""
    size = 0
    for number, history in enumerate(histories, 1):
        started = history.events[0].workflow_execution_started_event_attributes
        kind = started.workflow_type.name.removeprefix("noetl.")
        size += (FOLDER / f"{name}.{number}.{kind}.json").write_text(pretty(history.to_json()))
    return size


def remove(name: str) -> None:
    """Remove what was recorded under a name before; ``*`` is all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file in FOLDER.glob(f"{name}.*json"):
        file.unlink()


def recording_of(file: Path) -> str:
    return file.name.partition(".")[0]


def pretty(text: str) -> str:
    """Format a history, one event a line, without host names and paths of the recording machine."""
    text = _PAYLOAD.sub(_without_worker, text)
    text = re.sub(r'"\d+@[^"]+"', '"recorder"', text)
    text = re.sub(r'"stackTrace": *"(?:[^"\\]|\\.)*"', '"stackTrace": ""', text)
    events = ",\n".join(
        json.dumps(event, separators=(",", ":"), sort_keys=True) for event in json.loads(text)["events"]
    )
    return f'{{"events":[\n{events}\n]}}\n'


def _without_worker(match: re.Match[str]) -> str:
    data = _WORKER.sub(b'"worker":"recorder"', base64.b64decode(match[1]))
    return f'"data": "{base64.b64encode(data).decode()}"'
