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

__all__ = ["PrintableStream", "echo_document", "echo_json", "make_streams_printable", "stream_for_console"]

_PRINTABLE_ASCII = re.compile(r"[\n\t -~]*")


class PrintableStream(io.TextIOWrapper):
    """Writes to the file of ``underlying``, with control characters and those that its encoding lacks escaped."""

    def __init__(self, underlying: io.TextIOWrapper) -> None:
        underlying.flush()
        underlying.reconfigure(errors="backslashreplace")
        # click bypasses a stream whose encoding is ASCII and writes UTF-8
        encoding = "utf-8" if codecs.lookup(underlying.encoding).name == "ascii" else underlying.encoding
        super().__init__(
            underlying.buffer, encoding=encoding, errors="backslashreplace", line_buffering=underlying.line_buffering
        )
        self.underlying = underlying

    def write(self, text: str, /) -> int:
        """Write the text with control characters escaped; return the number of characters of ``text``."""
        super().write(_printable(text))
        return len(text)


def make_streams_printable() -> None:
    """Replace stdout and stderr of this process. A stream that is closed or not a file is left unchanged."""
    sys.stdout, sys.stderr = _to_printable_stream(sys.stdout), _to_printable_stream(sys.stderr)


def _to_printable_stream(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return PrintableStream(cast("io.TextIOWrapper", stream))


def stream_for_console(stream: TextIO) -> TextIO:
    """Return the underlying stream, for a writer that makes its text printable itself."""
    return stream.underlying if isinstance(stream, PrintableStream) else stream


def echo_json(text: str) -> None:
    """Print JSON, with control characters as JSON escapes, so that its value is unchanged."""
    from noetl_compiler.printable import printable_json

    click.echo(printable_json(text))


def echo_document(text: str) -> None:
    """Print the text of a file: unchanged into a pipe or a file, with escaped control characters on a terminal."""
    stream = sys.stdout if sys.stdout.isatty() else stream_for_console(sys.stdout)
    stream.write(text)
    stream.flush()


def _printable(text: str) -> str:
    if _PRINTABLE_ASCII.fullmatch(text):
        return text  # avoids an import, which --help need not wait for
    from noetl_compiler.printable import printable

    return printable(text)
