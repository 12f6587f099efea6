"""The graph: what every dialect lowers to, and all that a run needs.

A graph is self-contained, frozen and content-addressed. Lowering builds it, the machine interprets it,
previews draw it. It names no Temporal concept but the symbolic queue of each task.

Templates are not a node type of their own inside configuration: a :class:`Value` is plain JSON plus a table
``templates`` from JSON pointer (RFC 6901, ``""`` is the root) to the span of the string standing there. A string
is a template if and only if its pointer is in that table, so Python code with ``{{`` in it stays code.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl_compiler.graph.calls import Circuit, Collect, Guard, Output, Policy, Rule, Select, Sink, Splice, Task
from noetl_compiler.graph.steps import (
    AdmitRule,
    Arc,
    Cursor,
    EnterRule,
    Frame,
    Hold,
    Loop,
    Route,
    Step,
)
from noetl_compiler.graph.values import Assign, Json, Span, Template, Timeout, Value
from noetl_compiler.language.names_profile import NamesProfile
from noetl_compiler.language.words import BranchFailure, Dialect

__all__ = [
    "VERSION",
    "AdmitRule",
    "Arc",
    "Assign",
    "Circuit",
    "Collect",
    "Cursor",
    "EnterRule",
    "Frame",
    "Graph",
    "Guard",
    "Hold",
    "Json",
    "KeychainEntry",
    "Loop",
    "NamesProfile",
    "Output",
    "Policy",
    "Priority",
    "Route",
    "Rule",
    "Select",
    "Sink",
    "SourceRef",
    "Span",
    "Splice",
    "Step",
    "Task",
    "Template",
    "Timeout",
    "UnknownGraphVersionError",
    "Value",
    "decode",
    "encode",
    "seal",
]

VERSION = 1
"""Raised whenever the meaning of a stored graph changes; a run refuses a graph of another version."""


class KeychainEntry(msgspec.Struct, frozen=True):
    """A secret that templates call ``keychain.<name>``. ``config`` says where it is found, as its ``kind`` asks."""

    name: str
    kind: str
    span: Span
    config: Value = Value({})


class SourceRef(msgspec.Struct, frozen=True):
    """Where the graph came from. ``file`` is as the user gave it; ``path`` is the catalog path; ``dialect`` is for
    people.
    """

    file: str
    path: str
    name: str
    version: str
    dialect: Dialect


class Priority(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which runs and calls are served first when workers are busy: lower numbers, of equal ones each ``fairness_key``
    in proportion to its weight.
    """

    number: int | None = None
    fairness_key: str = ""
    fairness_weight: float | None = None


class Graph(msgspec.Struct, frozen=True):
    """A compiled playbook. ``digest`` is the sha256 of its canonical JSON with an empty digest. ``names`` says what its
    templates see where dialects disagree.
    """

    version: int
    digest: str
    source: SourceRef
    entry: str
    final: str
    steps: dict[str, Step]
    workload: Value = Value({})
    keychain: tuple[KeychainEntry, ...] = ()
    failure: BranchFailure = "best_effort"
    timeout: Timeout | None = None
    names: NamesProfile = NamesProfile()
    priority: Priority | msgspec.UnsetType = msgspec.UNSET


class UnknownGraphVersionError(ValueError):
    """This graph was compiled by another version: compile the playbook again."""


def encode(graph: Graph) -> bytes:
    """Canonical JSON: sorted keys, no spaces; the same graph gives the same bytes everywhere."""
    return msgspec.json.encode(graph, order="sorted")


def seal(graph: Graph) -> Graph:
    """The graph with its digest filled in."""
    unsealed = msgspec.structs.replace(graph, digest="")
    return msgspec.structs.replace(graph, digest=hashlib.sha256(encode(unsealed)).hexdigest())


def decode(data: bytes | str) -> Graph:
    """Read canonical JSON; :class:`UnknownGraphVersionError` for any other VERSION."""
    found = msgspec.json.decode(data, type=dict[str, Any]).get("version")
    if found != VERSION:
        raise UnknownGraphVersionError(f"graph version {found} is not {VERSION}: compile the playbook again")
    return msgspec.json.decode(data, type=Graph)
