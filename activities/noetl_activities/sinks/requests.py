"""What a sink stores, and where; and which outcome of a call is looked up in the ledger of a sink."""

from __future__ import annotations

from typing import NamedTuple

from noetl_activities.sinks.ledger import Entry
from noetl_activities.tool import Json

__all__ = ["OutcomeLookup", "SinkRequest"]


class SinkRequest(NamedTuple):
    """The data that one call stores with a sink.

    ``kind`` is a database (``postgres``, ``duckdb``) or a tool (``http``, ``python``). ``config`` has the fields of the
    sink; the sink stores its ``data`` if there is one, else the ``result`` of the call. ``mode`` is a meaning of
    ``language.words.SINK_MODES``, ``auth`` the credential: see credentials.Credentials.resolve.
    """

    kind: str
    config: dict[str, Json]
    mode: str
    entry: Entry
    result: Json = None
    auth: Json = None


class OutcomeLookup(NamedTuple):
    """The outcome of a call that a sink stored with its rows: under ``key`` and ``repetition`` (tool.Request).

    ``config`` needs only the fields of the sink that determine its database (DATABASE_FIELDS).
    """

    kind: str
    config: dict[str, Json]
    auth: Json
    key: str
    repetition: int
