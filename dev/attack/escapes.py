"""Terminal control sequences, in everything that commands print."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from unittest.mock import patch

import click
from rich.console import Console
from rich.pretty import Pretty
from rich.table import Table

from dev.attack.attack import Attack, AttackClass
from noetl_compiler import compile_text
from noetl_compiler.diagnostics import render
from noetl_compiler.printable import printable, printable_json
from noetl_temporal.cli.console import PrintableConsole, styled_text
from noetl_temporal.cli.printable_stream import PrintableStream

__all__ = ["CLASS"]

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
PIECES = (
    *("\x1b[2J", "\x1b[31m", "\x1b[8m", "\x1b]0;t\x07", "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\", "\x1b]52;c;eA==\x07"),
    *(
        "\x1bP+q\x1b\\",
        "\x1b[6n",
        "\x1b[?1049h",
        "\x1bc",
        "\x9b2J",
        "\x9d0;t\x9c",
        "\x90q\x9c",
        "\x07",
        "\x08\x08",
        "\r",
    ),
    *("\x0b", "\x0c", "\x0e", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u202d", "\u2066", "\u2067", "\u200f"),
    *("\u061c", "\ufeff", "\x00", "[link=http://x]y[/link]", "[red]", ":smile:", "\x1b", "\x1b[", "[/]"),
)
PLAIN = ("name", " ", "\n", "\t", "é", "日本", "error: ", '"', "\\", "x" * 90)


def _to_stream(text: str, output: io.BytesIO) -> None:
    click.echo(text, file=_Guard.stream(_text_stream(output)), color=True)


def _to_table(text: str, output: io.BytesIO) -> None:
    table = Table()
    table.add_column(text)
    table.add_row(text)
    _Guard.console(_text_stream(output)).print(table)


def _to_console(text: str, output: io.BytesIO) -> None:
    console = _Guard.console(_text_stream(output))
    console.print(text, soft_wrap=True)
    console.print(Pretty({text: [text]}))


def _to_styled(text: str, output: io.BytesIO) -> None:
    line = styled_text((text, "red"), text) if _Guard.is_on else text
    _Guard.console(_text_stream(output)).print(line, soft_wrap=True)


def _to_json(text: str, output: io.BytesIO) -> None:
    plain = json.dumps({text: text}, ensure_ascii=False)
    printed = printable_json(plain) if _Guard.is_on else plain
    if json.loads(printed) != json.loads(plain):
        raise ValueError("the JSON has another value")
    output.write(printed.encode(errors="surrogatepass"))


def _to_finding(text: str, output: io.BytesIO) -> None:
    result = compile_text(f"kind: Playbook\nworkflow: [{{step: {json.dumps(text)}}}]\n{text}", file=text)
    rendered = "\n".join(render(diagnostic, result.source) for diagnostic in result.diagnostics)
    output.write((rendered if _Guard.is_on else text).encode(errors="surrogatepass"))


WRITERS: tuple[Callable[[str, io.BytesIO], None], ...] = (
    *(_to_stream, _to_table, _to_console, _to_styled, _to_json, _to_finding),
)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield attacks for all writers in turn, with each piece at least once if there are enough attacks."""
    for index in range(count):
        parts = [PIECES[index % len(PIECES)], *rng.choices((*PIECES, *PLAIN), k=rng.randint(0, 8))]
        rng.shuffle(parts)
        yield _attack("".join(parts), WRITERS[index % len(WRITERS)])


def _attack(text: str, write: Callable[[str, io.BytesIO], None]) -> Attack:
    return Attack(f"{write.__name__.strip('_')}: {printable(text)[:80]}", partial(_gets_through, text, write))


def _gets_through(text: str, write: Callable[[str, io.BytesIO], None]) -> bool:
    output = _KeptBytes()
    write(text, output)
    return OBEYED.search(output.getvalue().decode(errors="surrogatepass")) is not None


def _text_stream(output: io.BytesIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(output, encoding="utf-8", errors="surrogatepass", write_through=True)


class _KeptBytes(io.BytesIO):
    """Bytes that outlive the streams that write to them."""

    def close(self) -> None:
        pass


class _Guard:
    """The filters between a command and the terminal, while they are on."""

    is_on = True

    @classmethod
    def stream(cls, terminal: io.TextIOWrapper) -> io.TextIOWrapper:
        return PrintableStream(terminal) if cls.is_on else terminal

    @classmethod
    def console(cls, terminal: io.TextIOWrapper) -> Console:
        return PrintableConsole(file=terminal) if cls.is_on else Console(file=terminal)


def _disable_guard() -> AbstractContextManager[object]:
    return patch.object(_Guard, "is_on", False)


CLASS = AttackClass(
    "escapes",
    _attacks,
    tuple(_attack("\x1b[2J\u202e", write) for write in (_to_stream, _to_table, _to_styled)),
    _disable_guard,
)
