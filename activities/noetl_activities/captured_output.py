"""Captures the output of shell commands and containers, and limits its size in the result."""

from __future__ import annotations

from noetl_activities.outcome import Json
from noetl_activities.scrub import TRUNCATION_MARGIN
from noetl_activities.tool import ToolContext

__all__ = ["MAX_OUTPUT_BYTES", "CapturedStream", "truncation_warning"]

MAX_OUTPUT_BYTES = 256 * 1024
"""Maximum bytes of stdout, and of stderr, in a result: both fit into the history without a payload store."""

_BEGINNING_BYTES = MAX_OUTPUT_BYTES + TRUNCATION_MARGIN
_END_BYTES = 64 * 1024
"""Bytes of the end that are captured besides the beginning, because a failed command prints its error there."""

_END_LINES = 5
_END_CHARS = 1000
"""Maximum length of the output in the error message of a failed command."""


class CapturedStream:
    """One stream of one call. Secrets are masked before the text is truncated: part of a secret is not recognized."""

    def __init__(self) -> None:
        self.size = 0
        self._beginning = bytearray()
        self._end = bytearray()

    def add(self, text: str) -> None:
        """Append output."""
        data = text.encode()
        self.size += len(data)
        self._beginning += data[: max(0, _BEGINNING_BYTES - len(self._beginning))]
        self._end = (self._end + data)[-_END_BYTES:]

    @property
    def is_complete(self) -> bool:
        """Whether the result contains all of the output."""
        return self.size <= _BEGINNING_BYTES

    def result_text(self, context: ToolContext) -> str:
        """Return the part of the output in the result."""
        text = _text(self._beginning)
        return text if self.is_complete else context.truncate(text, len(text) - TRUNCATION_MARGIN)

    def last_lines(self, context: ToolContext) -> str:
        """Return the last lines, joined to one."""
        lines = [line.strip() for line in self._masked_end(context).splitlines() if line.strip()]
        return " | ".join(lines[-_END_LINES:])[-_END_CHARS:]

    def _masked_end(self, context: ToolContext) -> str:
        """Return the end of the output, masked. If it is truncated, its first TRUNCATION_MARGIN characters are removed:
        they may contain the end of a secret.
        """
        text = _text(self._beginning if self.is_complete else self._end)
        masked_text = context.truncate(text, len(text))
        return masked_text if self.is_complete else masked_text[len(context.truncate(text, TRUNCATION_MARGIN)) :]


def truncation_warning(**streams: CapturedStream) -> dict[str, Json]:
    """Return the ``meta`` of the outcome, with a warning if streams are truncated."""
    warnings = [
        f"{name} has {stream.size:,} bytes, and the result only the first {MAX_OUTPUT_BYTES:,} of them"
        for name, stream in streams.items()
        if not stream.is_complete
    ]
    return {"warning": "; ".join(warnings)} if warnings else {}


def _text(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
