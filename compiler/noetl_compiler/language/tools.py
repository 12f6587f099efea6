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
    "SEVERAL_CREDENTIALS",
    "SQL_COMMANDS",
    "SQL_FIELDS",
    "SQL_KINDS",
    "SQL_LANGUAGES",
    "V1_KINDS",
    "V1_KIND_KEYS",
    "V1_MARKS",
    "V1_SAVES",
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
    for a kind that nothing runs here, ``about`` tells people what a call does."""

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
    about: str = ""


def _kind(
    about: str,
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
        about,
    )


_SQL = "command commands cmd cmds query queries command_b64 commands_b64 script params"
SQL_COMMANDS = ("command", "commands", "query", "queries", "cmd", "cmds")
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
            "Calls a web API and yields its answer.",
            "method url headers params query payload body data json form verify_ssl follow_redirects response_type",
            "url",
            executor=True,
            renamed="endpoint=url verify=verify_ssl",
            types="method=method url=text headers=mapping params=mapping|list|text form=mapping verify_ssl=flag|text "
            "follow_redirects=flag response_type=text",
            effect="request",
        ),
        "postgres": _kind(
            "Runs SQL in PostgreSQL and yields the rows of the last statement.",
            f"{_SQL} {_CONNECTION} pool database schema as_objects",
            _ANY_SQL,
            executor=True,
            bound=f"{_COMMANDS} {_DB}",
            types=f"{_SQL_TYPES} pool=flag|mapping db_port=number port=number",
            effect="transaction",
        ),
        "duckdb": _kind(
            "Runs SQL in DuckDB and yields the rows of the last statement.",
            f"{_SQL} database db_path as_objects gcs_credential",
            _ANY_SQL,
            executor=True,
            bound=f"{_COMMANDS} database db_path",
            types=f"{_SQL_TYPES} database=text db_path=text",
            effect="transaction",
        ),
        "python": _kind(
            'Runs Python code and yields its variable "result", or what its function "main" returns.',
            "code code_b64 script libs deps env cwd",
            "code|code_b64|script",
            code="code",
            executor=True,
            ignored="iterator",
            types="code=text code_b64=text libs=mapping|list deps=list env=mapping cwd=text",
            effect="code",
        ),
        "noop": _kind(
            "Calls nothing; its rules, names and routes still count.", "message result", executor=True, effect="none"
        ),
        "playbook": _kind(
            "Runs another playbook and yields its result.",
            "path catalog_id version return_step return_result result_step poll_interval wait parallel",
            "path|catalog_id",
            renamed="return=return_step",
            ignored="task",
            types="path=text wait=flag return_result=flag poll_interval=number",
        ),
        "ducklake": _kind(
            "Runs SQL on a DuckLake catalog.", f"{_SQL} catalog_connection catalog_name data_path database", _ANY_SQL
        ),
        "shell": _kind(
            "Runs commands in a shell.",
            "cmds command env cwd",
            "cmds|command",
            commands="cmds command",
            types="cmds=text|list command=text|list env=mapping",
        ),
        "rhai": _kind("Runs a script in the Rhai language.", "code", "code", code="code"),
        "container": _kind(
            "Runs a container as a job of Kubernetes.",
            "runtime image namespace command args env resources service_account restart_policy backoff_limit script",
        ),
        "script": _kind("Runs a stored script as a job of Kubernetes.", "script job", "script"),
        "secrets": _kind(
            "Reads a secret from a secret manager.", "provider secret_name name project project_id version"
        ),
        "snowflake": _kind(
            "Runs SQL in Snowflake.",
            f"{_SQL} account user role warehouse database schema",
            _ANY_SQL,
            bound=f"{_COMMANDS} account warehouse database schema",
        ),
        "transfer": _kind(
            "Copies rows from one database to another.", "source target chunk_size mode mapping", "source", "target"
        ),
        "snowflake_transfer": _kind(
            "Copies rows between Snowflake and another database.",
            "source target direction chunk_size mode mapping",
            "source",
            "target",
        ),
        "gcs": _kind(
            "Copies a file to or from Google Cloud Storage.",
            "source destination bucket object operation content_type metadata",
        ),
        "nats": _kind(
            "Reads or writes a NATS bucket or stream.",
            "operation bucket key value ttl stream subject payload encoding",
            "operation",
        ),
        "artifact": _kind("Stores or fetches a large result.", "action result_ref uri", "action"),
        "result_fetch": _kind("Fetches a large result by its reference.", "ref result_ref uri"),
        "quantum": _kind("Runs a quantum circuit.", "provider backend circuit shots params seed tags"),
        "agent": ToolKind(about="Asks an agent of the platform."),
        "mcp": ToolKind(about="Calls a tool of an MCP server."),
        "gateway": ToolKind(about="Calls the platform's gateway."),
        "subscription": ToolKind(about="Listens to a subscription of the platform."),
        "wasm": ToolKind(about="Runs a WebAssembly module."),
        "provider": ToolKind(about="Calls a provider of the platform."),
        "task_sequence": ToolKind(about="Runs the tasks of a step, as the platform writes it for itself."),
        "cursor_worker": ToolKind(about="Claims the rows of a cursor, as the platform writes it for itself."),
        "event": ToolKind(about="Writes to the event log."),
        "event_log": ToolKind(about="Writes to the event log."),
    }
)
"""Kind -> what it takes. Common fields (auth, input, timeout, spec ...) belong to the dialects."""

PSEUDO_KINDS = frozenset({"start", "end", "router", "route"})
"""Kinds that only mark a step; they call nothing."""

CALLED = ToolKind(
    frozenset[str]().union(*(kind.bound for kind in KINDS.values())), about="Runs a task of the workbook."
)
"""What the call of a workbook task may say of the tool it does not name: its connection and its commands."""

V1_KINDS: Mapping[str, str] = MappingProxyType({"playbooks": "playbook", "secret": "secrets", "task": "workbook"})
"""Other words of the v1 dialect -> the kind that each means."""

V1_KIND_KEYS = ("type", "kind", "tool")
"""Where a call of the v1 dialect may say what it calls."""

V1_MARKS = ("start", "end", "router")
"""Kinds of the v1 dialect that only mark a step and may still store something."""

V1_SAVES = frozenset({"save", "sink"})
"""Words of the v1 dialect for what only stores something."""

SQL_KINDS = frozenset(name for name, kind in KINDS.items() if kind.fields and kind.fields >= SQL_FIELDS)
"""Kinds that run SQL and yield its rows."""

SQL_LANGUAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"postgres": ("Postgres", "$1"), "duckdb": ("DuckDB", "?"), "snowflake": ("Snowflake", "%s")}
)
"""Those whose SQL is checked: the name of the database, and how it writes a parameter."""

SEVERAL_CREDENTIALS = frozenset({"duckdb", "ducklake", "transfer", "snowflake_transfer"})
"""Kinds that take several credentials and tell them apart by alias."""


def sends_headers(kind: str) -> bool:
    """Whether a call of this kind is a request with headers of its own."""
    return kind in KINDS and KINDS[kind].effect == "request"
