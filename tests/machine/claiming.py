"""Rows of a table that loops over a cursor claim, without a database, and the machine of a chunk that claims them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl_compiler import compile_or_raise
from noetl_temporal.machine.call import Part, StoredRef, ToolCall, ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, ChunkInput, Command, Finish, RunChunk
from noetl_temporal.machine.facts import CancelRequested, Continued, Restored, Started, ToolFinished, ValueLoaded
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.stored import load_id

from .driver import error, ok, report_of

__all__ = ["Claiming", "Table", "cancel_while_claiming", "report_of_stored_rows"]

_STORED_ROWS = StoredRef((Part("rows"),), 100_000, is_one=True)


class Table:
    """A table of so many rows: who claims them, and what is said of them."""

    def __init__(self, rows: int, *, fails: Callable[[int, int], bool] = lambda _id, _attempt: False) -> None:
        self.pending = list(range(rows))
        self.attempts = dict.fromkeys(range(rows), 0)
        self.fails = fails
        self.settlements: list[tuple[str, ...]] = []
        self.claims: list[tuple[str, int, int]] = []
        self.lost_rows: set[int] = set()

    def answer(self, call: ToolCall) -> Any:
        if call.kind == "noop":
            number = int(call.input["n"])
            return error("boom", "exception") if self.fails(number, self.attempts[number]) else ok({"n": number})
        word, *_ = call.config["query"].split()
        return (
            self._claim(call.config["params"])
            if word == "CLAIM"
            else self._start_ready_work(word, call.config["params"])
        )

    def _claim(self, params: list[Any]) -> Any:
        token, limit = params
        rows, self.pending = self.pending[:limit], self.pending[limit:]
        self.claims.append((token, limit, len(rows)))
        for row in rows:
            self.attempts[row] += 1
        claimed_rows = [{"id": row, "attempts": self.attempts[row]} for row in rows]
        return ok({"rows": claimed_rows, "columns": ["id", "attempts"], "row_count": len(rows)})

    def _start_ready_work(self, word: str, params: list[Any]) -> Any:
        row = int(params[0])
        self.settlements.append((word, *map(str, params)))
        if word == "RELEASE":
            self.pending.append(row)
        return ok({"rows": [], "columns": [], "row_count": 0 if row in self.lost_rows else 1})


class Claiming:
    """The machine of the first chunk of a playbook, fed by hand. ``calls`` are in flight, by id; some are ``done`` and
    not reported yet.
    """

    def __init__(self, text: str, table: Table) -> None:
        machine = PlaybookMachine(compile_or_raise(text), execution_id=7)
        commands = machine.feed(Started(1_000, {}))
        self.chunk_input: ChunkInput = next(command.input for command in commands if isinstance(command, RunChunk))
        self.machine = loop_machine(self.chunk_input)
        self.table = table
        self.calls: dict[str, ToolCall] = {}
        self.done: dict[str, ToolReport] = {}
        self.cancelled: list[str] = []
        self.at = 2_000
        self._take(self.machine.feed(Started(self.at)))

    def _take(self, commands: list[Command]) -> None:
        self.calls |= {command.call.id: command.call for command in commands if isinstance(command, CallTool)}
        self.cancelled += [command.id for command in commands if isinstance(command, Cancel)]
        self.is_over = any(isinstance(command, Finish) for command in commands)

    def feed(self, event: Any) -> None:
        self._take(self.machine.feed(event))

    def answer(self, word: str, report: ToolReport | None = None, *, cancelled: bool = False) -> None:
        """Answer the first call of the ``word``, or of the tool."""
        id_ = next(id_ for id_ in self.calls if word in id_)
        call = self.calls.pop(id_)
        self.at += 10
        report = report or self.done.pop(id_, None) or report_of(self.table.answer(call))
        self.feed(ToolFinished(self.at, id_, report, cancelled=cancelled))

    def do(self, id_: str) -> None:
        """The call takes effect; its report comes later."""
        if id_ not in self.done:
            self.done[id_] = report_of(self.table.answer(self.calls[id_]))

    def go_on(self) -> None:
        """In the next workflow task."""
        if self.machine.has_work:
            self.at += 1
            self.feed(Continued(self.at))

    def restore(self) -> None:
        """Go on from the snapshot."""
        self.machine = loop_machine(self.chunk_input, self.machine.snapshot())


def report_of_stored_rows() -> ToolReport:
    """The report of a statement whose rows are stored."""
    return ToolReport({"status": "ok"}, stored=_STORED_ROWS)


def cancel_while_claiming(claiming: Claiming, *, restored: bool) -> None:
    """Cancel while the only claim is in flight, which then returns stored rows, and answer all calls that follow."""
    [claim] = claiming.calls.values()
    rows = claiming.table.answer(claim).outcome["result"]
    claiming.feed(CancelRequested(claiming.at + 1))
    claiming.answer("claim", report_of_stored_rows())
    if restored:
        claiming.restore()
        claiming.feed(Restored(claiming.at))
    claiming.feed(ValueLoaded(claiming.at, load_id(_STORED_ROWS), rows))
    while claiming.calls:
        claiming.answer("")
