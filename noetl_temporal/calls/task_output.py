"""Writes the output of a task's code to the table noetl.log and to the worker's log, line by line while it runs.

Tools pass output to it with ``ToolContext.output``. Only whole lines are written, without the secrets of the call: an
unfinished line waits for its end, and if a secret has several lines, all output waits for the end of the call. At most
MAX_BYTES of an attempt are stored; the truncation is reported. While Postgres is unavailable, lines are lost, and a
call is delayed by at most STORE_SECONDS.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime

from noetl_activities.credentials import Credentials
from noetl_activities.scrub import TRUNCATION_MARGIN
from noetl_activities.tool import OutputStream
from noetl_temporal.calls.call_log import CallLog, worker_name
from noetl_temporal.calls.task_log import NOTICE_STREAM, OutputSource, PrintedText, is_default_task_name, store_printed
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.mirror.storable import storable_text

__all__ = ["TaskOutput"]

MAX_BYTES = 1024 * 1024
"""The maximum size of the output of one attempt in noetl.log."""

_MAX_FED_CHARACTERS = MAX_BYTES + 2 * TRUNCATION_MARGIN
"""The maximum length of the output of one attempt that is processed; further output is dropped."""

MAX_CHARACTERS = 8000
"""The maximum length of the output of one attempt in the worker's log: a loop may have a million items, and logs are
not pruned.
"""

FLUSH_SECONDS = 0.25
STORE_SECONDS = 2.0
"""How long a call waits for its output to be stored."""

UNAVAILABLE_SECONDS = 10.0
"""How long nothing is stored after a failure, as otherwise every call that prints would wait."""

_TRUNCATED = f"the output is truncated here: at most {MAX_BYTES:,} bytes of an attempt are logged\n"

_log = logging.getLogger(__name__)
"""Logs the output at level INFO, which cli/logs.py enables."""

_unavailable_until: dict[str, float] = {}
"""The time, on the monotonic clock, until which this process stores nothing, by DSN."""


class _Lines:
    """The text of one stream that was not written yet, in pieces. Its last line may be unfinished."""

    def __init__(self, *pieces: str) -> None:
        self.start_time = datetime.now(UTC)
        self.pieces = list(pieces)
        self.has_line = False


class TaskOutput:
    """The output of one attempt. A context manager, which writes everything at its end."""

    def __init__(self, call: ToolCall, log: CallLog, credentials: Credentials, dsn: str | None) -> None:
        self._call, self._attempts, self._credentials, self._dsn = call, log, credentials, dsn
        self._waiting: dict[str, _Lines] = {}
        self._fed_characters = self._stored_bytes = self._logged_characters = 0
        self._is_dropping = self._is_full = False
        self._has_ended = asyncio.Event()
        self._flushing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Write all output. Raises nothing, and waits at most STORE_SECONDS for Postgres."""
        del kind, error, traceback
        if not self._fed_characters:
            return
        if self._flushing is not None:
            self._has_ended.set()
            await asyncio.wait([self._flushing])
        await self._flush(is_end=True)

    def feed(self, stream: OutputStream, text: str) -> None:
        """Add printed text. See ToolContext.output."""
        room = _MAX_FED_CHARACTERS - self._fed_characters
        self._is_dropping = self._is_dropping or len(text) > room
        if not text or room <= 0:
            return
        text = text[:room]
        self._fed_characters += len(text)
        lines = self._waiting.setdefault(stream, _Lines())
        lines.pieces.append(text)
        lines.has_line = lines.has_line or "\n" in text
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_often())

    async def _flush_often(self) -> None:
        while not self._has_ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), FLUSH_SECONDS)
            if not self._credentials.has_multiline_secret and not self._has_ended.is_set():
                await self._flush(is_end=False)

    async def _flush(self, *, is_end: bool) -> None:
        finished_lines = (self._finished_lines(stream, is_end=is_end) for stream in list(self._waiting))
        texts = self._within_limit(
            sorted((text for text in finished_lines if text and text.text), key=lambda text: text.time)
        )
        if is_end and self._is_dropping and not self._is_full:
            texts.append(PrintedText(datetime.now(UTC), NOTICE_STREAM, _TRUNCATED))
        if texts:
            self._log_to_worker(texts)
            await self._store(texts)

    def _finished_lines(self, stream: str, *, is_end: bool) -> PrintedText | None:
        """Return the finished lines of a stream, at the end of the call all its text, without secrets."""
        lines = self._waiting[stream]
        if not is_end and not lines.has_line:
            return None
        text = "".join(lines.pieces)
        del self._waiting[stream]
        if is_end and self._is_dropping:  # the truncation may have cut a secret in two
            text = self._credentials.truncate(text, max(0, len(text) - TRUNCATION_MARGIN))
        elif not is_end:
            line_end = text.rfind("\n") + 1
            if line_end < len(text):
                self._waiting[stream] = _Lines(text[line_end:])
            text = text[:line_end]
        return PrintedText(lines.start_time, stream, storable_text(self._credentials.mask_secrets(text)))

    def _within_limit(self, texts: list[PrintedText]) -> list[PrintedText]:
        """Return the texts up to the limit, and then the text that reports the truncation; nothing after that."""
        printed: list[PrintedText] = []
        for text in texts:
            if self._is_full:
                break
            data = text.text.encode()
            remaining = MAX_BYTES - self._stored_bytes
            self._stored_bytes += len(data)
            if len(data) <= remaining:
                printed.append(text)
                continue
            self._is_full = True
            if remaining > 0:
                printed.append(text._replace(text=data[:remaining].decode("utf-8", "ignore")))
            printed.append(PrintedText(text.time, NOTICE_STREAM, _TRUNCATED))
        return printed

    # ---- destinations -----------------------------------------------------------------------------------------------

    async def _store(self, texts: list[PrintedText]) -> None:
        if self._dsn is None or time.monotonic() < _unavailable_until.get(self._dsn, 0.0):
            return
        call = self._call
        source = OutputSource(
            call.execution_id,
            call.step,
            call.task,
            call.iteration,
            call.page,
            self._attempts.attempt_number,
            worker_name(),
        )
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await store_printed(self._dsn, source, texts)
        except (TimeoutError, *DATABASE_ERRORS) as error:
            _unavailable_until[self._dsn] = time.monotonic() + UNAVAILABLE_SECONDS
            _log.warning("the output of tasks is not stored for %g s: %s", UNAVAILABLE_SECONDS, type(error).__name__)

    def _log_to_worker(self, texts: list[PrintedText]) -> None:
        """Write the lines to the worker's log, indented, to distinguish them from lines of the log itself."""
        remaining = MAX_CHARACTERS - self._logged_characters
        if remaining <= 0:
            return
        printed = "".join(text.text if text.text.endswith("\n") else f"{text.text}\n" for text in texts)
        if not printed.strip():
            return
        self._logged_characters += len(printed)
        lines = printed[:remaining].splitlines()
        if len(printed) > remaining:
            lines.append("... (the rest is in noetl.log)" if self._dsn else "... (the rest is omitted)")
        message_lines = "".join(f"\n  | {line}" for line in lines)
        call, attempt = self._call, self._attempts.attempt_number
        fields = {"execution_id": call.execution_id, "step": call.step, "iteration": call.iteration, "attempt": attempt}
        _log.info(
            "execution %s, %s, attempt %d printed:%s",
            call.execution_id,
            _name(call),
            attempt,
            message_lines,
            extra=fields,
        )


def _name(call: ToolCall) -> str:
    """Return ``step fetch, task parse, item 2, page 3``. Items count from 0, as in the event log."""
    parts = [f"step {call.step}"]
    if not is_default_task_name(call.step, call.task):
        parts.append(f"task {call.task}")
    if call.iteration is not None:
        parts.append(f"item {call.iteration}")
    if call.page is not None:
        parts.append(f"page {call.page}")
    return ", ".join(parts)
