"""The tool kinds that NoETL knows, as data: their fields, which are code, which must be there.

A field named in ``code`` is never a template: it is somebody else's language. One in ``commands`` may carry
templates of Go beside ours. SQL is a template, for playbooks write expressions into it. A kind without an
executor compiles with a warning, because the graph is useful without running it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

__all__ = [
    "CALLED",
    "HEADER_NAME",
    "IDEMPOTENT_METHODS",
    "KINDS",
    "METHODS",
    "PSEUDO_KINDS",
    "SAFE_METHODS",
    "SQL_COMMANDS",
    "SQL_FIELDS",
    "Effect",
    "ToolKind",
    "sends_headers",
]

Effect: TypeAlias = Literal["none", "code", "request", "transaction"]
"""What a call does outside: nothing, whatever its code does, what a server does at its request, or SQL in a transaction
that keeps the call's outcome in the ledger beside what it wrote (semantics.md 26a).
"""


@dataclass(frozen=True, slots=True)
class ToolKind:
    """One kind. ``fields`` None accepts any. ``needs`` holds groups of fields of which one must be there,
    ``renamed`` older names of fields, ``ignored`` fields that playbooks have but no engine ever read, ``bound`` those
    that v1 playbooks give among the names bound for the call, ``types`` what some fields must be. ``effect`` is None
    for a kind that nothing runs here."""

    fields: frozenset[str] | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    code: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    executor: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    effect: Effect | None = None


def _kind(
    fields: str,
    *needs: str,
    code: str = "",
    commands: str = "",
    executor: bool = False,
    renamed: str = "",
    ignored: str = "",
    bound: str = "",
    types: str = "",
    effect: Effect | None = None,
) -> ToolKind:
    """Fields as words; ``needs`` as ``a|b``, ``renamed`` as ``old=new``, ``types`` as ``field=mapping|list``."""
    return ToolKind(
        frozenset(fields.split()),
        tuple(tuple(group.split("|")) for group in needs),
        frozenset(code.split()),
        frozenset(commands.split()),
        executor,
        {old: new for old, _, new in (pair.partition("=") for pair in renamed.split())},
        frozenset(ignored.split()),
        frozenset(bound.split()),
        {name: tuple(kinds.split("|")) for name, _, kinds in (pair.partition("=") for pair in types.split())},
        effect,
    )


_SQL = "command commands cmd cmds query queries command_b64 commands_b64 script params"
SQL_COMMANDS = frozenset({"command", "commands", "cmd", "cmds", "query", "queries"})
"""Where the SQL of a task may stand as it is."""

SQL_FIELDS = frozenset(_SQL.removesuffix(" params").split())
"""All fields that hold SQL. A task has one of them."""

_DB = "connection_string db_host db_port db_user db_password db_name db_schema"
_CONNECTION = f"{_DB} host port user password"
_COMMANDS = _SQL.removesuffix(" params")
_ANY_SQL = _COMMANDS.replace(" ", "|")
_COMMAND_TYPES = " ".join(f"{name}=text|list" for name in _COMMANDS.removesuffix(" script").split())
_SQL_TYPES = f"{_COMMAND_TYPES} params=list|mapping|text as_objects=flag"

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
"""What ``method`` of an http task may say, in any case of letters."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing on the server (RFC 9110, 9.2.1)."""

IDEMPOTENT_METHODS = SAFE_METHODS | {"PUT", "DELETE"}
"""Methods that have the same effect however often they are repeated (RFC 9110, 9.2.2)."""

HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""What the name of a header may be (RFC 9110, 5.6.2)."""

KINDS: Mapping[str, ToolKind] = MappingProxyType(
    {
        "http": _kind(
            "method url headers params query payload body data json form verify_ssl follow_redirects response_type",
            "url",
            executor=True,
            renamed="endpoint=url verify=verify_ssl",
            types="method=method url=text headers=mapping params=mapping|list|text form=mapping verify_ssl=flag|text "
            "follow_redirects=flag response_type=text",
            effect="request",
        ),
        "postgres": _kind(
            f"{_SQL} {_CONNECTION} pool database schema as_objects",
            _ANY_SQL,
            executor=True,
            bound=f"{_COMMANDS} {_DB}",
            types=f"{_SQL_TYPES} pool=flag|mapping db_port=number port=number",
            effect="transaction",
        ),
        "duckdb": _kind(
            f"{_SQL} database db_path as_objects gcs_credential",
            _ANY_SQL,
            executor=True,
            bound=f"{_COMMANDS} database db_path",
            types=f"{_SQL_TYPES} database=text db_path=text",
            effect="transaction",
        ),
        "python": _kind(
            "code code_b64 script libs deps env cwd",
            "code|code_b64|script",
            code="code",
            executor=True,
            ignored="iterator",
            types="code=text code_b64=text libs=mapping|list deps=list env=mapping cwd=text",
            effect="code",
        ),
        "noop": _kind("message result", executor=True, effect="none"),
        "playbook": _kind(
            "path catalog_id version return_step return_result result_step poll_interval wait parallel",
            "path|catalog_id",
            renamed="return=return_step",
            ignored="task",
            types="path=text wait=flag return_result=flag poll_interval=number",
        ),
        "ducklake": _kind(f"{_SQL} catalog_connection catalog_name data_path database", _ANY_SQL),
        "shell": _kind(
            "cmds command env cwd",
            "cmds|command",
            commands="cmds command",
            types="cmds=text|list command=text|list env=mapping",
        ),
        "rhai": _kind("code", "code", code="code"),
        "container": _kind(
            "runtime image namespace command args env resources service_account restart_policy backoff_limit script"
        ),
        "script": _kind("script job", "script"),
        "secrets": _kind("provider secret_name name project project_id version"),
        "snowflake": _kind(
            f"{_SQL} account user role warehouse database schema",
            _ANY_SQL,
            bound=f"{_COMMANDS} account warehouse database schema",
        ),
        "transfer": _kind("source target chunk_size mode mapping", "source", "target"),
        "snowflake_transfer": _kind("source target direction chunk_size mode mapping", "source", "target"),
        "gcs": _kind("source destination bucket object operation content_type metadata"),
        "nats": _kind("operation bucket key value ttl stream subject payload encoding", "operation"),
        "artifact": _kind("action result_ref uri", "action"),
        "result_fetch": _kind("ref result_ref uri"),
        "quantum": _kind("provider backend circuit shots params seed tags"),
        "agent": ToolKind(),
        "mcp": ToolKind(),
        "gateway": ToolKind(),
        "subscription": ToolKind(),
        "wasm": ToolKind(),
        "provider": ToolKind(),
        "task_sequence": ToolKind(),
        "cursor_worker": ToolKind(),
        "event": ToolKind(),
        "event_log": ToolKind(),
    }
)
"""Kind -> what it takes. Common fields (auth, input, timeout, spec ...) belong to the dialects."""

PSEUDO_KINDS = frozenset({"start", "end", "router", "route"})
"""Kinds that only mark a step; they call nothing."""

CALLED = ToolKind(frozenset[str]().union(*(kind.bound for kind in KINDS.values())))
"""What the call of a workbook task may say of the tool it does not name: its connection and its commands."""


def sends_headers(kind: str) -> bool:
    """Whether a call of this kind is a request with headers of its own."""
    return kind in KINDS and KINDS[kind].effect == "request"
