"""Read cursors: loops that claim rows of a database until none is left (semantics.md 24).

loop:
  cursor:
    kind: postgres
    auth: pg
    claim: "UPDATE ... SET token = {{ lease.token }} ... FOR UPDATE SKIP LOCKED ... RETURNING *"
    renew: "UPDATE ... WHERE id = {{ row.id }} AND token = {{ lease.token }}"
    ack: "UPDATE ... SET status = {{ output.status }} WHERE id = {{ row.id }} AND token = {{ lease.token }}"
    release: "UPDATE ... SET token = NULL WHERE id = {{ row.id }} AND token = {{ lease.token }}"
  spec: {mode: cursor, max_in_flight: 10, frame: {max_rows: 100, lease_seconds: 120, process: row}}
"""

from __future__ import annotations

from noetl_compiler.dialects.bound_sql import bind_sql
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Cursor, Json, Task, Value
from noetl_compiler.language.constructs.loops import CURSOR, FRAME
from noetl_compiler.language.words import FRAME_PROCESSES, ROW_ERRORS, RowProcess
from noetl_compiler.nodes import MappingNode, SequenceNode, string_node, value_of

__all__ = ["read_cursor"]

_ATTEMPTS = {"row": "{{ row.attempts }}", "frame": "{{ row | map(attribute='attempts') | max }}"}
"""The number of claims of a row, or the maximum over the rows of a frame."""

_NO_PARAMS = Value([])


def read_cursor(loop: Fields) -> Cursor | None:
    """Read the ``cursor`` of a loop, with the ``frame`` next to it in the loop's spec."""
    fields = ConstructFields.nested(loop, "cursor", CURSOR)
    if fields is None:
        return None
    kind = fields.required_name("kind")
    auth, database = fields.node_of("auth"), fields.node_of("database")
    params = value_of(SequenceNode(fields.items("params"), fields.span), "/params")
    database_value = value_of(database, "/database") if database is not None else None
    statements = _StatementReader(kind.text if kind else "", value_of(auth) if auth else None, database_value)
    frame = _Frame(loop)
    attempts = fields.amount("attempts") or Value(_ATTEMPTS[frame.process], {"": fields.span})
    on_row_error = fields.choice("on_row_error", ROW_ERRORS) or "ack"
    if on_row_error == "release" and "release" not in fields:
        fields.report_missing("release", hint="write the statement that releases a row")
    cursor = Cursor(
        statements.kind,
        fields.span,
        _fields_as_written(fields, frame.node),
        statements.auth,
        claim=statements.task(fields, "claim", params),
        renew=statements.task(fields, "renew"),
        ack=statements.task(fields, "ack"),
        release=statements.task(fields, "release"),
        process=frame.process,
        on_row_error=on_row_error,
        attempts=attempts if on_row_error == "release" else None,
        max_attempts=frame.max_attempts,
        max_rows=frame.max_rows,
        row_concurrency=frame.row_concurrency,
        lease_seconds=frame.lease_seconds,
        heartbeat_seconds=frame.heartbeat_seconds,
    )
    fields.check_keys()
    return cursor


def _fields_as_written(cursor: ConstructFields, frame: MappingNode | None) -> Value:
    entries = cursor.node.without("kind", "auth", "credential").entries
    if frame is not None:
        entries += ((string_node("frame", frame.span), frame),)
    return value_of(MappingNode(entries, cursor.span))


class _StatementReader:
    """Converts the statements of a cursor to calls of the tool of its database."""

    def __init__(self, kind: str, auth: Value | None, database: Value | None) -> None:
        self.kind = kind
        self.auth = auth
        self._database = database

    def task(self, cursor: ConstructFields, name: str, params: Value = _NO_PARAMS) -> Task | None:
        """Return the call of the statement in the field ``name``; ``params`` are its first parameters."""
        node = cursor.scalar(name)
        if node is None:
            return None
        sql = bind_sql(node, cursor.report, parameter_count=len(params.data))
        values: list[Json] = [*params.data, *(template for template, _ in sql.values)]
        templates = {f"/params/{len(params.data) + index}": span for index, (_, span) in enumerate(sql.values)}
        config: dict[str, Json] = {"query": sql.query, "params": values}
        if self._database is not None:
            config["database"], templates = self._database.data, {**templates, **self._database.templates}
        return Task(
            label=name,
            kind=self.kind,
            queue=self.kind,
            span=node.span,
            config=Value(config, {**params.templates, **templates}),
            auth=self.auth,
        )


class _Frame:
    """The ``frame`` of a cursor: how many rows are claimed at once, and for how long they are leased."""

    def __init__(self, loop: Fields) -> None:
        fields = ConstructFields.nested(loop, "frame", FRAME) or ConstructFields.empty(loop.span, loop.report, FRAME)
        self.node = fields.node if fields.node.entries else None
        self.process: RowProcess = fields.choice("process", FRAME_PROCESSES) or "row"
        self.max_rows = fields.count("max_rows")
        self.row_concurrency = fields.count("row_concurrency")
        self.max_attempts = fields.count("max_attempts")
        self.lease_seconds = fields.seconds("lease_seconds")
        self.heartbeat_seconds = fields.seconds("heartbeat_seconds")
        fields.ignore(
            "max_seconds", "max_bytes", "retry_mode", reason="each task of a claimed row runs in its own activity"
        )
        fields.check_keys()
