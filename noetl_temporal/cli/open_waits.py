"""The open waits of a run, with the commands that answer them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from noetl_compiler.language.payload_schema import form_schema, payload_template
from noetl_compiler.language.timestamps import format_timestamp
from noetl_temporal.cli.progress import WAIT_BEGINS, WAIT_ENDS, Row
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # importing the machine is slow
    from noetl_temporal.machine.waits.wait import Wait

__all__ = ["OpenWait", "WaitLines", "open_wait", "shell_word"]


class OpenWait(msgspec.Struct, frozen=True):
    """An open wait. ``due`` is ISO 8601, empty if it has no end; ``answer`` is the command that answers it."""

    name: str
    kind: str
    signal: str = ""
    key: str | None = None
    message: str = ""
    due: str = ""
    answer: str = ""

    def line(self) -> str:
        """Return ``review waits for an approval (Pay it?): noetl approve ID review``."""
        until = f" until {utc_text(datetime.fromisoformat(self.due))}" if self.due else ""
        if self.kind == "time":
            return f"{self.name} waits{until}"
        message = f" ({self.message})" if self.message else ""
        subject = "an approval" if self.kind == "approval" else f"the signal {self.signal}"
        return f"{self.name} waits for {subject}{message}{until}: {self.answer}"


def open_wait(execution_id: int, wait: Wait) -> OpenWait:
    """Return the open wait for a wait that the run reports."""
    due = format_timestamp(wait.due) if wait.due else ""
    answer = (
        _approve_command(execution_id, wait.name, wait.form, wait.approvers)
        if wait.kind == "approval"
        else _signal_command(execution_id, wait.signal, wait.key, wait.schema)
    )
    return OpenWait(wait.name, wait.kind, wait.signal, wait.key, wait.message, due, answer)


class WaitLines:
    """The open waits of a run, from the rows of its event log."""

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self._open: dict[str, OpenWait] = {}

    def feed(self, row: Row) -> None:
        """Process one row."""
        if row.event_type in WAIT_BEGINS:
            self._open[_wait_key(row.meta)] = self._wait_from_row(row)
        elif row.event_type in WAIT_ENDS:
            self._open.pop(_wait_key(row.meta), None)

    def lines(self) -> list[str]:
        """Return one line for each wait, the oldest first."""
        return [wait.line() for wait in self._open.values()]

    def _wait_from_row(self, row: Row) -> OpenWait:
        meta = row.meta
        signal, key, name = str(meta.get("signal") or ""), meta.get("key"), _name(meta)
        kind = "approval" if row.event_type == "approval.requested" else "signal" if signal else "time"
        answer = (
            _approve_command(self._execution_id, name, meta.get("form") or {}, meta.get("approvers") or ())
            if kind == "approval"
            else _signal_command(self._execution_id, signal, key, meta.get("schema") or {})
        )
        return OpenWait(name, kind, signal, key, str(meta.get("message") or ""), str(meta.get("due") or ""), answer)


def _approve_command(execution_id: int, name: str, form: Mapping[str, Any], approvers: Sequence[str]) -> str:
    """Return the command with everything that is required: the fields of the form, and an approver."""
    required: list[str] = form_schema(form)["required"]
    fields = "".join(f" --form {shell_word(field)}=..." for field in required)
    approver = f" --as {shell_word(approvers[0])}" if approvers else ""
    return f"noetl approve {execution_id} {shell_word(name)}{fields}{approver}, or noetl reject"


def _signal_command(execution_id: int, signal: str, key: str | None, schema: Mapping[str, Any]) -> str:
    """Return the command that sends the signal, with a template of the data that its schema requires; "" for a wait for
    a time, which needs no answer.
    """
    if not signal:
        return ""
    template = payload_template(schema)
    data = "" if template is None else f" --data {shell_word(json.dumps(template, ensure_ascii=False))}"
    return f"noetl signal {execution_id} {shell_word(signal)}" + (f" --key {shell_word(key)}" if key else "") + data


def shell_word(word: str) -> str:
    """Quote a word for a shell, which may read ``[3]`` as a pattern."""
    is_plain = word.isascii() and word.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return word if is_plain else "'" + word.replace("'", "'\\''") + "'"


def _wait_key(meta: Mapping[str, Any]) -> str:
    """Return an id of the wait that is unique in the whole run; ids of iterations are unique only in their loop."""
    return f"{meta.get('loop_id', '')} {meta.get('wait_id')}"


def _name(meta: Mapping[str, Any]) -> str:
    step, iteration = str(meta.get("step", "")), meta.get("iteration")
    return step if iteration is None else f"{step}[{iteration}]"
