"""What the commands of a shell task print, of which a result keeps a bounded part."""

from __future__ import annotations

from noetl_activities.outcome import Json
from noetl_activities.scrub import CUT_MARGIN
from noetl_activities.tool import ToolContext

__all__ = ["MAX_OUTPUT", "Captured", "cut_told"]

MAX_OUTPUT = 256 * 1024
"""Bytes of stdout, and of stderr, in a result: both fit into history where nothing is stored elsewhere."""

_KEPT = MAX_OUTPUT + CUT_MARGIN
_END_BYTES = 64 * 1024
"""Kept of the end, apart from the beginning: a failed command says there why it failed."""

_END_LINES = 5
_END_CHARS = 1000
"""Of the output, in the message of a command that fails."""


class Captured:
    """One stream of one call. Secrets are masked before a text is shortened: what is left of a secret that a cut
    divides is not found any more.
    """

    def __init__(self) -> None:
        self.size = 0
        self._beginning = bytearray()
        self._end = bytearray()

    def add(self, text: str) -> None:
        """Append what was printed."""
        data = text.encode()
        self.size += len(data)
        self._beginning += data[: max(0, _KEPT - len(self._beginning))]
        self._end = (self._end + data)[-_END_BYTES:]

    @property
    def is_whole(self) -> bool:
        """Whether a result has all of it."""
        return self.size <= _KEPT

    def shortened(self, context: ToolContext) -> str:
        """What a result has of it."""
        text = _text(self._beginning)
        return text if self.is_whole else context.cut(text, len(text) - CUT_MARGIN)

    def last_lines(self, context: ToolContext) -> str:
        """The last lines, in one."""
        lines = [line.strip() for line in self._masked_end(context).splitlines() if line.strip()]
        return " | ".join(lines[-_END_LINES:])[-_END_CHARS:]

    def _masked_end(self, context: ToolContext) -> str:
        """Where the beginning is missing, without the first part, which may begin with the rest of a secret."""
        text = _text(self._beginning if self.is_whole else self._end)
        masked = context.cut(text, len(text))
        return masked if self.is_whole else masked[len(context.cut(text, CUT_MARGIN)) :]


def cut_told(**streams: Captured) -> dict[str, Json]:
    """What the outcome says of streams that are not whole."""
    told = [
        f"{name} has {one.size:,} bytes, and the result only the first {MAX_OUTPUT:,} of them"
        for name, one in streams.items()
        if not one.is_whole
    ]
    return {"warning": "; ".join(told)} if told else {}


def _text(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
