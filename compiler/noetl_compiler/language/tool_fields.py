"""Descriptions of the fields of NoETL's tool kinds, for people. ``tools.py`` declares which kind has which field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from noetl_compiler.language.tool_description import FieldType, ToolField

__all__ = [
    "DEFAULT_SHELL",
    "DEFAULT_SHOTS",
    "LOCAL",
    "METHODS",
    "PROVIDERS",
    "SHELLS",
    "SQL_COMMANDS",
    "SQL_FIELDS",
    "described_fields",
]

SQL_COMMANDS = ("command", "commands", "query", "queries", "cmd", "cmds")
"""The fields that may contain the SQL of a task as plain text."""

SQL_FIELDS = frozenset({*SQL_COMMANDS, "command_b64", "commands_b64", "script"})
"""All fields that hold SQL. A task has one of them."""

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
"""The values of ``method`` of an http task, case-insensitive."""

SHELLS = ("bash", "sh")
"""The values of ``shell`` of a shell task."""

DEFAULT_SHELL = "bash"
"""Most playbooks of the NoETL server need it: they redirect with ``&>``, or set ``pipefail``."""

LOCAL = "local"
PROVIDERS = (LOCAL, "ibm")
"""The values of ``provider`` of a quantum task; local simulates a machine in the worker."""

DEFAULT_SHOTS = 1024

_ABOUT_SQL = 'The SQL to run; several statements are separated by ";", and templates in it are rendered.'
_ABOUT_ENCODED = "The SQL to run, in base64."
_FIELD_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((*SQL_COMMANDS, "script"), _ABOUT_SQL),
        **dict.fromkeys(("command_b64", "commands_b64"), _ABOUT_ENCODED),
        "account": "The account of Snowflake.",
        "action": "Whether to store or to fetch: put or get.",
        "approvers": "Who may decide, by name; anyone by default.",
        "args": "The arguments of the container's command.",
        "as_objects": "Whether rows are mappings of column to value.",
        "backend": "The machine or simulator that runs the circuit.",
        "backoff_limit": "How often Kubernetes retries the job.",
        "body": "The body to send; a mapping or list goes as JSON.",
        "bucket": "The name of the bucket.",
        "catalog_connection": "The connection of the DuckLake catalog.",
        "catalog_name": "The name of the DuckLake catalog.",
        "chunk_size": "The number of rows copied in a batch.",
        "circuit": "The circuit to run.",
        "code": "The code to run; templates in it are not rendered, so bind what it needs with input.",
        "code_b64": "The code to run, in base64.",
        "connection_string": "The connection string of the database.",
        "cwd": "The folder to run in.",
        "data": "What to send: in the query of a GET or DELETE, else in the body.",
        "data_path": "The location of the DuckLake's files.",
        "database": "The name or file of the database.",
        "db_host": "The host of the database.",
        "content_type": "The media type of what is copied, such as text/csv.",
        "db_name": "The name of the database.",
        "db_password": "The password for the database; a credential named by auth is safer.",
        "db_path": "The file of the database.",
        "db_port": "The port of the database.",
        "db_schema": "The schema of the database.",
        "db_user": "The user of the database.",
        "deps": "The Python packages that the code needs.",
        "destination": "Where to copy to.",
        "direction": "The types of source and target if they set none: sf_to_pg or pg_to_sf.",
        "endpoint": "The address of a store that is compatible with S3, where no credential names it.",
        "env": "Environment variables, name and value.",
        "duration": "How long to wait: seconds, or a string with a unit.",
        "encoding": "The encoding of the value, such as utf-8.",
        "follow_redirects": "Whether to follow redirects.",
        "form": "The form to send as the body.",
        "gcs_credential": "The name of the credential for Google Cloud Storage.",
        "headers": "The HTTP headers to send.",
        "host": "The host of the database.",
        "image": "The container's image.",
        "job": "The settings of the Kubernetes job.",
        "json": "The body to send as JSON.",
        "key": "The key to read or write.",
        "libs": "Python modules to import, name and module.",
        "mapping": "Which column of the source goes to which column of the target.",
        "message": "A message for people.",
        "metadata": "Metadata that is stored with the file, name and value.",
        "method": "The HTTP method, GET by default.",
        "mode": "How rows are stored: append, overwrite or upsert.",
        "name": "The name of the secret.",
        "namespace": "The namespace of Kubernetes.",
        "object": "The name of the file in the bucket.",
        "on_timeout": "The step to go to when the timeout has passed.",
        "operation": "What to do, such as kv_get or kv_put.",
        "parallel": "Whether the playbook may run beside others.",
        "params": "The values bound to the statement's parameters.",
        "password": "The password for the database; a credential named by auth is safer.",
        "path": "The path of the playbook in the catalog, or its file.",
        "payload": "The body to send; a mapping or list goes as JSON.",
        "poll_interval": "How often to poll for the playbook's end; no effect, because Temporal reports the end.",
        "pool": "Whether connections are kept, or how many.",
        "port": "The port of the database.",
        "project": "The project of the secret manager.",
        "project_id": "The project of the secret manager.",
        "provider": "The provider of the service.",
        "ref": "The reference of the result.",
        "region": "The region of the store, where no credential names it; us-east-1 by default.",
        "resources": "The CPU and memory that the container may use.",
        "response_type": "Whether a body that is JSON is read (json, the default) or stays text (text).",
        "restart_policy": "When Kubernetes starts the container again.",
        "result": "The value to yield.",
        "result_ref": "The reference of the result.",
        "result_step": "The step of the playbook whose result is yielded.",
        "return_result": "Whether the playbook's result is yielded.",
        "return_step": "The step of the playbook whose result is yielded.",
        "role": "The role to take in Snowflake.",
        "runtime": "The container and how it runs.",
        "schema": "The schema of the database.",
        "secret_name": "The name of the secret.",
        "seed": "The seed of the simulator.",
        "service_account": "The service account of Kubernetes.",
        "shell": "The shell that runs the commands.",
        "shots": "The number of runs (shots) of the circuit.",
        "signal": "The name of the signal to wait for.",
        "source": "Where to copy from.",
        "stream": "The name of the stream.",
        "subject": "The subject to publish to.",
        "tags": "Tags to find the job by.",
        "target": "Where to copy to.",
        "ttl": "The lifetime of the value.",
        "until": "The time to wait for, in ISO 8601 (UTC unless it has an offset) or in seconds since 1970.",
        "uri": "The location of the result.",
        "url": "The address to call.",
        "user": "The user of the database.",
        "value": "The value to write.",
        "verify_ssl": "Whether the server's certificate is checked, true by default.",
        "version": "The version, the newest by default.",
        "wait": "Whether to wait for the playbook's end, true by default.",
        "warehouse": "The warehouse of Snowflake that runs the SQL.",
    }
)

_MEANINGS_BY_KIND: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("http", "params"): "The query of the address, name and value.",
        ("http", "query"): "The query of the address, name and value.",
        ("shell", "cmds"): "The commands to run, each in its own shell, until one fails; templates in them are "
        "rendered.",
        ("shell", "command"): "The command or script to run; templates in it are rendered.",
        ("shell", "cwd"): "The folder to run in, the call's own by default.",
        ("shell", "env"): 'Environment variables, name and value: the safe way to pass values, read as "$NAME".',
        ("rhai", "code"): "The Rhai script to run.",
        ("container", "args"): "The arguments of the command, or of the script.",
        ("container", "command"): "The command, instead of the image's own: a list of words, or a shell command line.",
        ("container", "env"): "Environment variables: name and value, or a list of {name, value}.",
        ("container", "resources"): "The limits of the container: limits, with cpu and memory, such as 500m and 128Mi.",
        ("container", "runtime"): "The fields of the container, in the form of older playbooks.",
        ("container", "script"): "The script that a shell of the image runs.",
        ("python", "script"): "The location of the code.",
        ("wait", "key"): "Distinguishes this wait from other waits for the signal, such as an order number.",
        ("wait", "schema"): "The JSON Schema of the signal's payload.",
        ("approval", "form"): "The fields that the decider fills in: name and type (string, number, integer, "
        "boolean, object or array, as in JSON Schema), or {type, required, choices}.",
        ("approval", "message"): "The question, for the approvers.",
        ("script", "script"): "The location of the script.",
        ("artifact", "data"): "The value to put: text as it is, any other as JSON.",
        ("artifact", "uri"): "The address of the object: s3://BUCKET/KEY or gs://BUCKET/KEY.",
        ("nats", "bucket"): "The name of the bucket or of the object store.",
        ("nats", "encoding"): "Write base64 if the text is base64 of the bytes to send.",
        ("nats", "key"): "The key in the bucket, or the name of the object.",
        ("nats", "payload"): "What to publish.",
        ("nats", "ttl"): "The lifetime of the value in seconds, if the bucket supports it.",
        ("quantum", "circuit"): "The circuit to run, in OpenQASM 2 or 3.",
        ("quantum", "params"): "The values of the circuit's parameters: by name, or in their order.",
        ("quantum", "provider"): "Who runs the circuit: ibm, or a simulation in the worker.",
        ("quantum", "seed"): "The seed of the transpiler and of the simulator.",
        (
            "transfer",
            "mode",
        ): "How rows are stored: append (the default), upsert with key, or overwrite, which replaces all others.",
        (
            "transfer",
            "source",
        ): "Where rows come from: type (postgres, duckdb, snowflake or http), auth, and the fields of that tool.",
        ("transfer", "target"): "Where rows go to: type, auth, table or a statement as query, key, mapping; or a url.",
    }
)

_EXAMPLES: Mapping[tuple[str, str], tuple[Any, ...]] = MappingProxyType(
    {
        ("http", "method"): ("GET", "POST", "PUT", "PATCH", "DELETE"),
        ("http", "headers"): ({"Accept": "application/json"},),
        ("http", "response_type"): ("json", "text"),
        ("wait", "duration"): ("30s", "4h"),
        ("wait", "schema"): ({"type": "object", "required": ["amount"]},),
        ("approval", "form"): ({"amount": "number", "note": "string"},),
        ("nats", "operation"): ("kv_get", "kv_put", "js_publish"),
        ("transfer", "mode"): ("append", "overwrite", "upsert"),
        ("snowflake_transfer", "mode"): ("append", "overwrite", "upsert"),
    }
)

_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("http", "method"): tuple(sorted(METHODS)),
        ("shell", "shell"): SHELLS,
        ("quantum", "provider"): PROVIDERS,
        ("artifact", "action"): ("get", "put"),
    }
)

_DEFAULTS: Mapping[tuple[str, str], Any] = MappingProxyType(
    {("shell", "shell"): DEFAULT_SHELL, ("quantum", "provider"): LOCAL, ("quantum", "shots"): DEFAULT_SHOTS}
)

_RARE_FIELDS = frozenset({"cmd", "command_b64", "commands_b64", "queries", "code_b64"})
"""Fields that programs and old files use; editors accept them, but do not propose them."""


def described_fields(kind: str, names: str, types: Mapping[str, tuple[FieldType, ...]]) -> Mapping[str, ToolField]:
    """Return the fields of one kind in alphabetical order. ``names`` is a string of words; ``types`` may lack some."""
    return MappingProxyType({name: _field(kind, name, types.get(name, ())) for name in sorted(names.split())})


def _field(kind: str, name: str, types: tuple[FieldType, ...]) -> ToolField:
    return ToolField(
        _MEANINGS_BY_KIND.get((kind, name)) or _FIELD_MEANINGS[name],
        types,
        choices=_CHOICES.get((kind, name), ()),
        ignores_case=(kind, name) == ("http", "method"),
        default=_DEFAULTS.get((kind, name)),
        examples=_EXAMPLES.get((kind, name), ()),
        is_rare=name in _RARE_FIELDS,
    )
