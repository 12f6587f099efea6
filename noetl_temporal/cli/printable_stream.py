"""Standard output and standard error with control characters escaped.

Commands print names, errors and results from untrusted sources. The streams themselves are replaced, so this applies to
every command, and to click, logging and tracebacks. Only Rich's consoles, which write colours and move the cursor, use
the underlying stream; they escape each piece of text themselves (console.py).
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from typing import TextIO, cast

import click

__all__ = ["PrintableStream", "echo_document", "echo_json", "print_safely", "stream_for_console"]

_HARMLESS = re.compile(r"[\n\t -~]*")


class PrintableStream(io.TextIOWrapper):
    """Writes to the same file as ``beneath``. Characters that its encoding lacks are escaped."""

    def __init__(self, beneath: io.TextIOWrapper) -> None:
        beneath.flush()
        beneath.reconfigure(errors="backslashreplace")
        # click writes UTF-8 past a stream that says it is ASCII
        encoding = "utf-8" if codecs.lookup(beneath.encoding).name == "ascii" else beneath.encoding
        super().__init__(
            beneath.buffer, encoding=encoding, errors="backslashreplace", line_buffering=beneath.line_buffering
        )
        self.beneath = beneath

    def write(self, text: str, /) -> int:
        """Write the text with control characters escaped; return the number of characters of ``text``."""
        super().write(_printable(text))
        return len(text)


def print_safely() -> None:
    """Replace both streams of this process. A stream that is closed, or no file, stays as it is."""
    sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)


def _safe(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return PrintableStream(cast("io.TextIOWrapper", stream))


def stream_for_console(stream: TextIO) -> TextIO:
    """Return the underlying stream, for a writer that makes its text printable itself."""
    return stream.beneath if isinstance(stream, PrintableStream) else stream


def echo_json(text: str) -> None:
    """Print JSON that stays JSON with the same value, whatever is in its texts."""
    from noetl_compiler.printable import printable_json

    click.echo(printable_json(text))


def echo_document(text: str) -> None:
    """Print a file's text: byte for byte into a pipe or a file, printable on a terminal."""
    stream = sys.stdout if sys.stdout.isatty() else stream_for_console(sys.stdout)
    stream.write(text)
    stream.flush()


def _printable(text: str) -> str:
    if _HARMLESS.fullmatch(text):
        return text  # without an import that --help need not wait for
    from noetl_compiler.printable import printable

    return printable(text)
