"""The tool kinds of NoETL, as data: their fields, their results, and the effects of their calls.

SQL is a template, because playbooks write expressions into it. A kind without an executor compiles with a warning,
because the graph is useful even if it cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from noetl_compiler.language import keys
from noetl_compiler.language.tool_description import Effect, FieldType, ToolDescription, ToolField, Tools
from noetl_compiler.language.tool_fields import METHODS, SQL_COMMANDS, SQL_FIELDS, described_fields
from noetl_compiler.language.tool_results import (
    ARTIFACT,
    DECISION,
    DUCKDB_ROWS,
    MEASUREMENT,
    NATS_VALUE,
    NOOP_VALUE,
    OUTPUT,
    PLAYBOOK_VALUE,
    PYTHON_VALUE,
    RESPONSE,
    ROWS,
    SECRET,
    TRANSFER_RESULT,
    WAIT_VALUE,
)

__all__ = [
    "APPROVAL",
    "HEADER_NAME",
    "IDEMPOTENT_METHODS",
    "IN_WORKFLOW",
    "KINDS",
    "METHODS",
    "PLAYBOOK",
    "PSEUDO_KINDS",
    "RESERVED_FIELDS",
    "RESERVED_KINDS",
    "SAFE_METHODS",
    "SEVERAL_CREDENTIALS",
    "SQL_COMMANDS",
    "SQL_FIELDS",
    "SQL_KINDS",
    "SQL_LANGUAGES",
    "V1_KINDS",
    "V1_KIND_KEYS",
    "V1_MARKER_KINDS",
    "V1_SAVE_KINDS",
    "WAIT_KINDS",
    "WORKBOOK_CALL",
    "sends_headers",
]

PLAYBOOK = "playbook"
"""The kind that runs another playbook. The workflow starts the run; workers have no tool for it."""

APPROVAL = "approval"
"""The kind that waits for the decision of a person."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing on the server (RFC 9110, 9.2.1)."""

IDEMPOTENT_METHODS = SAFE_METHODS | {"PUT", "DELETE"}
"""Methods that have the same effect however often they are repeated (RFC 9110, 9.2.2)."""

HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
"""The syntax of the name of a header (RFC 9110, 5.6.2)."""

_COMMANDS = " ".join((*SQL_COMMANDS, *sorted(SQL_FIELDS - {*SQL_COMMANDS})))
_SQL = f"{_COMMANDS} params"
_DB = "connection_string db_host db_port db_user db_password db_name db_schema"
_CONNECTION = f"{_DB} host port user password"
_ANY_SQL = _COMMANDS.replace(" ", "|")
_COMMAND_TYPES = " ".join(f"{name}=text|list" for name in _COMMANDS.removesuffix(" script").split())
_SQL_TYPES = f"{_COMMAND_TYPES} params=list|mapping|text as_objects=flag"

_HTTP_ACCESS = (
    "It connects only to public addresses, on the embedded stack also to loopback. To allow others, list hosts or "
    "networks in NOETL_HTTP_ALLOW in the environment of the worker, such as 127.0.0.1, 10.0.0.0/8, api.internal; for "
    "the embedded stack before noetl dev up."
)
_SANDBOX_ACCESS = (
    "On Linux it runs in a sandbox: it reads none of your files and connects to a few ports only. To allow more, set "
    "NOETL_TASK_DIRECTORIES or NOETL_TASK_PORTS in the environment of the worker: noetl explain operations."
)

_ONLY_GENERATED = "the kind is only for what NoETL's server generates"
_ALREADY_LOGGED = "the event log is derived from what a run does; set a name, or store a row with postgres"


def _kind(
    kind: str,
    summary: str,
    fields: str,
    *needs: str,
    code_fields: str = "",
    command_fields: str = "",
    renamed_fields: str = "",
    ignored_fields: str = "",
    bound_fields: str = "",
    types: str = "",
    result: Mapping[str, ToolField] | None = None,
    yields: str = "",
    effect: Effect | None = None,
    timeout: float | None = None,
    access: str = "",
    unsupported: str = "",
) -> tuple[str, ToolDescription]:
    """Describe a kind. Lists are strings of words: those of ``needs`` are like ``a|b``, of ``renamed_fields`` like
    ``old=new``, of ``types`` like ``field=mapping|list``. A kind has an ``effect`` if it can run; otherwise
    ``unsupported`` says why not.
    """
    pairs = (pair.partition("=") for pair in types.split())
    return kind, ToolDescription(
        summary,
        described_fields(
            kind, fields, {name: cast("tuple[FieldType, ...]", tuple(names.split("|"))) for name, _, names in pairs}
        ),
        tuple(tuple(group.split("|")) for group in needs),
        frozenset(code_fields.split()),
        frozenset(command_fields.split()),
        {old: new for old, _, new in (pair.partition("=") for pair in renamed_fields.split())},
        frozenset(ignored_fields.split()),
        frozenset(bound_fields.split()),
        result or {},
        yields,
        effect,
        timeout=timeout,
        access=access,
        has_executor=effect is not None,
        unsupported=unsupported,
    )


def _platform_kind(kind: str, summary: str, unsupported: str) -> tuple[str, ToolDescription]:
    """Describe a kind of the NoETL platform, which accepts any fields and cannot run."""
    return kind, ToolDescription(summary, unsupported=unsupported)


_TABLE = (
    _kind(
        "http",
        "Calls a web API and yields its response.",
        "method url headers params query payload body data json form verify_ssl follow_redirects response_type",
        "url",
        renamed_fields="endpoint=url verify=verify_ssl",
        types="method=text url=text headers=mapping params=mapping|text form=mapping verify_ssl=flag|text "
        "follow_redirects=flag response_type=text",
        result=RESPONSE,
        effect="request",
        timeout=60.0,
        access=_HTTP_ACCESS,
    ),
    _kind(
        "postgres",
        "Runs SQL in PostgreSQL and yields the rows of the last statement.",
        f"{_SQL} {_CONNECTION} pool database schema as_objects",
        _ANY_SQL,
        renamed_fields="code=command",
        bound_fields=f"{_COMMANDS} {_DB}",
        types=f"{_SQL_TYPES} pool=flag|mapping db_port=number port=number",
        result=ROWS,
        effect="transaction",
    ),
    _kind(
        "duckdb",
        "Runs SQL in DuckDB and yields the rows of the last statement.",
        f"{_SQL} database db_path as_objects gcs_credential",
        _ANY_SQL,
        renamed_fields="code=command",
        bound_fields=f"{_COMMANDS} database db_path",
        types=f"{_SQL_TYPES} database=text db_path=text",
        result=DUCKDB_ROWS,
        effect="transaction",
    ),
    _kind(
        "python",
        'Runs Python code and yields its variable "result", or what its function "main" returns.',
        "code code_b64 script libs deps env cwd",
        "code|code_b64|script",
        code_fields="code",
        ignored_fields="iterator",
        types="code=text code_b64=text libs=mapping|list deps=list env=mapping cwd=text",
        yields=PYTHON_VALUE,
        effect="code",
        access=_SANDBOX_ACCESS,
    ),
    _kind(
        "shell",
        "Runs commands in a shell, and yields what they print and their exit status.",
        "cmds command env cwd shell",
        "cmds|command",
        command_fields="cmds command",
        renamed_fields="commands=cmds cmd=command script=command",
        ignored_fields="capture",
        types="cmds=text|list command=text|list env=mapping cwd=text shell=text",
        result=OUTPUT,
        effect="code",
        access=_SANDBOX_ACCESS,
    ),
    _kind(
        "noop",
        "Calls nothing; its rules, names and routes still apply.",
        "message result",
        yields=NOOP_VALUE,
        effect="none",
    ),
    _kind(
        "wait",
        "Waits for a time or for a signal, and yields the payload of the signal.",
        "until duration signal key schema on_timeout",
        "until|duration|signal",
        types="until=text|number duration=text|number signal=text key=text|number schema=mapping on_timeout=text",
        yields=WAIT_VALUE,
        effect="none",
    ),
    _kind(
        APPROVAL,
        "Waits until a person approves or rejects, and yields the decision. A rejection is not an error.",
        "message form approvers on_timeout",
        types="message=text form=mapping approvers=list|text on_timeout=text",
        result=DECISION,
        effect="none",
    ),
    _kind(
        PLAYBOOK,
        "Runs another playbook and yields its result.",
        "path version return_step return_result result_step poll_interval wait parallel",
        "path",
        renamed_fields="return=return_step catalog_path=path",
        ignored_fields="task catalog_id",
        types="path=text wait=flag return_result=flag poll_interval=number",
        yields=PLAYBOOK_VALUE,
        effect="run",
    ),
    _kind(
        "ducklake",
        "Runs SQL on a DuckLake catalog.",
        f"{_SQL} catalog_connection catalog_name data_path database",
        _ANY_SQL,
        renamed_fields="code=command",
        unsupported="DuckDB downloads its extension for DuckLake when it is first used, and a run installs nothing; "
        "use duckdb or postgres",
    ),
    _kind(
        "rhai",
        "Runs a script in the Rhai language.",
        "code",
        "code",
        code_fields="code",
        unsupported="there is no maintained interpreter of Rhai for Python; write the script in python",
    ),
    _kind(
        "container",
        "Runs an image to its end with Docker or Podman, and yields what it prints and its exit status.",
        "runtime image namespace command args env resources service_account restart_policy backoff_limit script",
        "image|runtime",
        types="runtime=mapping image=text command=text|list env=mapping|list resources=mapping script=text|mapping",
        result=OUTPUT,
        effect="code",
    ),
    _kind(
        "script",
        "Runs a stored script as a job of Kubernetes.",
        "script job",
        "script",
        unsupported="it needs a cluster of Kubernetes, whose jobs the worker does not start; run the script with "
        "python, or its image with container",
    ),
    _kind(
        "secrets",
        "Finds a secret and yields a reference to it.",
        "provider secret_name name project project_id version",
        "secret_name|name",
        types="provider=text secret_name=text name=text",
        result=SECRET,
        effect="none",
    ),
    _kind(
        "snowflake",
        "Runs SQL in Snowflake and yields the rows of the last statement.",
        f"{_SQL} account user role warehouse database schema",
        _ANY_SQL,
        renamed_fields="code=command",
        bound_fields=f"{_COMMANDS} account warehouse database schema",
        types=f"{_COMMAND_TYPES} params=list|mapping|text role=text warehouse=text database=text schema=text",
        result=ROWS,
        effect="service",
    ),
    _kind(
        "transfer",
        "Copies rows from a database or a server to another.",
        "source target chunk_size mode mapping",
        "source",
        "target",
        types="source=mapping target=mapping chunk_size=number mode=text mapping=mapping",
        result=TRANSFER_RESULT,
        effect="rows",
    ),
    _kind(
        "snowflake_transfer",
        "Copies rows between Snowflake and another database.",
        "source target direction chunk_size mode mapping",
        "source",
        "target",
        types="source=mapping target=mapping direction=text chunk_size=number mode=text mapping=mapping",
        result=TRANSFER_RESULT,
        effect="rows",
    ),
    _kind(
        "gcs",
        "Copies a file to or from Google Cloud Storage.",
        "source destination bucket object operation content_type metadata",
        unsupported="a run has no files of its own to copy; put and get values with artifact",
    ),
    _kind(
        "nats",
        "Reads or writes a bucket, an object store or a stream of NATS.",
        "operation bucket key value ttl stream subject payload encoding",
        "operation",
        types="operation=text bucket=text key=text|number ttl=number stream=text subject=text encoding=text",
        yields=NATS_VALUE,
        effect="service",
    ),
    _kind(
        "artifact",
        "Puts a value into an object store, or gets one from there.",
        "action uri data region endpoint result_ref",
        "action",
        types="action=text uri=text region=text endpoint=text",
        result=ARTIFACT,
        effect="service",
        timeout=60.0,
    ),
    _kind(
        "result_fetch",
        "Fetches a large result by its reference.",
        "ref result_ref uri",
        unsupported="results have no references here, however large; read the result itself, such as {{ start }}",
    ),
    _kind(
        "quantum",
        "Runs a quantum circuit on a machine of IBM Quantum, or on a simulation of one.",
        "provider backend circuit shots params seed tags",
        "circuit",
        "backend",
        types="provider=text backend=text circuit=text shots=number params=mapping|list seed=number tags=list",
        result=MEASUREMENT,
        effect="service",
    ),
    _platform_kind(
        "agent",
        "Asks an agent of the platform.",
        "agents are part of NoETL's server; call the API of the model with http, or another playbook with playbook",
    ),
    _platform_kind(
        "mcp", "Calls a tool of an MCP server.", "there is no client for MCP here; call the server's API with http"
    ),
    _platform_kind(
        "gateway",
        "Calls the platform's gateway.",
        "the gateway is part of NoETL's server; answer with the result of the run, or call an address with http",
    ),
    _platform_kind(
        "subscription",
        "Listens to a subscription of the platform.",
        "it needs a message broker whose client is not part of the worker; use nats, or a tool of your own",
    ),
    _platform_kind(
        "wasm", "Runs a WebAssembly module.", "the worker has no runtime of WebAssembly; use python or container"
    ),
    _platform_kind(
        "provider",
        "Calls a provider of the platform.",
        "providers are part of NoETL's server; call the service's API with http",
    ),
    _platform_kind(
        "task_sequence", "Runs the tasks of a step.", f"{_ONLY_GENERATED}; write the tasks of a step as a list"
    ),
    _platform_kind("cursor_worker", "Claims the rows of a cursor.", f"{_ONLY_GENERATED}; write a loop over a cursor"),
    _platform_kind("event", "Writes to the event log.", _ALREADY_LOGGED),
    _platform_kind("event_log", "Writes to the event log.", _ALREADY_LOGGED),
)

KINDS: Tools = MappingProxyType(dict(_TABLE))
"""Kind -> its description. Fields of every call (auth, input, timeout ...) are in language/constructs/calls.py."""

WAIT_KINDS = frozenset({"wait", APPROVAL})
"""Kinds that wait for a time, a signal or a person."""

IN_WORKFLOW = WAIT_KINDS | {PLAYBOOK}
"""Kinds that the workflow performs itself: no tool is called."""

PSEUDO_KINDS = frozenset({"start", "end", "router", "route"})
"""Kinds that only mark a step; they call nothing."""

RESERVED_KINDS = PSEUDO_KINDS | {
    "frame",
    "iterator",
    "loop",
    "playbook",
    "playbooks",
    "save",
    "secret",
    "sink",
    "task",
    "workbook",
}
"""Words that cannot be the kind of an installed tool, nor a queue of workers."""

RESERVED_FIELDS = frozenset(
    {
        *("kind", "type", "name", "label", "desc", "description", "spec", "policy", "timeout", "timeout_seconds"),
        *keys.AUTH,
        *keys.INPUT,
        *keys.SET,
        *("guard", "assert", "eval", "retry", "set_ctx", "set_iter", "sink", "save", "output", "output_select"),
    }
)
"""Keys of every call, so that no tool can have a field of that name."""

WORKBOOK_CALL = ToolDescription(
    "Runs a task of the workbook.",
    described_fields("workbook", " ".join({name for kind in KINDS.values() for name in kind.bound_fields}), {}),
)
"""The fields of a workbook call, which does not name the kind: the connection and commands of any kind."""

V1_KINDS: Mapping[str, str] = MappingProxyType({"playbooks": "playbook", "secret": "secrets", "task": "workbook"})
"""Synonyms in the v1 dialect -> the kind."""

V1_KIND_KEYS = ("type", "kind", "tool")
"""Keys that name the kind of a call in the v1 dialect."""

V1_MARKER_KINDS = ("start", "end", "router")
"""Kinds of the v1 dialect that only mark a step and may still store something."""

V1_SAVE_KINDS = frozenset({"save", "sink"})
"""Kinds of the v1 dialect, and keys of its steps, that only store something."""

SQL_KINDS = frozenset(name for name, kind in KINDS.items() if kind.field_names >= SQL_FIELDS)
"""Kinds that run SQL and yield its rows."""

SQL_LANGUAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"postgres": ("Postgres", "$1"), "duckdb": ("DuckDB", "?"), "snowflake": ("Snowflake", "%s")}
)
"""Kinds whose SQL is checked -> the name of the database, and its notation of a parameter."""

SEVERAL_CREDENTIALS = frozenset({"duckdb", "ducklake", "transfer", "snowflake_transfer"})
"""Kinds that take several credentials, each with an alias."""


def sends_headers(kind: str) -> bool:
    """Whether a call of this kind is a request with headers of its own."""
    return kind in KINDS and KINDS[kind].effect == "request"
