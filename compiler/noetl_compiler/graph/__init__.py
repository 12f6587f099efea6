"""The graph: the compiled form of every dialect, and all that a run needs.

A graph is self-contained, immutable and content-addressed. Lowering builds it, the machine interprets it, previews draw
it. Its only concept of Temporal is the queue of each task.

Templates inside configuration are not nodes of their own. A :class:`Value` is plain JSON with a table ``templates``
from JSON pointer (RFC 6901, ``""`` is the root) to the span of the string there. A string is a template if and only if
its pointer is in the table, so ``{{`` in Python code is not one.
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
    FinalStatus,
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
    "FinalStatus",
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
"""Increased when the meaning of stored graphs changes; a run refuses a graph of another version."""


class KeychainEntry(msgspec.Struct, frozen=True):
    """A secret that templates read as ``keychain.<name>``. ``config`` says where it is stored; its fields depend on
    ``kind``.
    """

    name: str
    kind: str
    span: Span
    config: Value = Value({})


class SourceRef(msgspec.Struct, frozen=True):
    """The source of a graph. ``file`` is the name that the user gave, ``path`` that in the metadata of the playbook;
    ``dialect`` is only displayed.
    """

    file: str
    path: str
    name: str
    version: str
    dialect: Dialect


class Priority(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which runs and calls are served first when workers are busy: those with lower numbers. Among equal numbers, each
    ``fairness_key`` gets a share in proportion to its weight.
    """

    number: int | None = None
    fairness_key: str = ""
    fairness_weight: float | None = None


class Graph(msgspec.Struct, frozen=True):
    """A compiled playbook. ``digest`` is the sha256 of its canonical JSON with an empty digest. ``branch_failure`` says
    what an unhandled failure means for other branches. ``names`` has the differences between dialects in the names that
    templates see.
    """

    version: int
    digest: str
    source: SourceRef
    entry: str
    final: str
    steps: dict[str, Step]
    workload: Value = Value({})
    keychain: tuple[KeychainEntry, ...] = ()
    branch_failure: BranchFailure = "best_effort"
    timeout: Timeout | None = None
    names: NamesProfile = NamesProfile()
    priority: Priority | msgspec.UnsetType = msgspec.UNSET


class UnknownGraphVersionError(ValueError):
    """This graph was compiled by another version: compile the playbook again."""


def encode(graph: Graph) -> bytes:
    """Return canonical JSON: sorted keys, no whitespace. Equal graphs give equal bytes."""
    return msgspec.json.encode(graph, order="sorted")


def seal(graph: Graph) -> Graph:
    """Return the graph with its digest filled in."""
    graph_without_digest = msgspec.structs.replace(graph, digest="")
    return msgspec.structs.replace(graph, digest=hashlib.sha256(encode(graph_without_digest)).hexdigest())


def decode(data: bytes | str) -> Graph:
    """Decode canonical JSON. Raises UnknownGraphVersionError for any other VERSION."""
    version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
    if version != VERSION:
        raise UnknownGraphVersionError(f"graph version {version} is not {VERSION}: compile the playbook again")
    return msgspec.json.decode(data, type=Graph)
