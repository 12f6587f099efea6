"""The keys of the results of each kind, or a description of other results."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.language.tool_description import ToolField

__all__ = [
    "ARTIFACT",
    "DECISION",
    "DUCKDB_ROWS",
    "MEASUREMENT",
    "NATS_VALUE",
    "NOOP_VALUE",
    "OUTPUT",
    "PLAYBOOK_VALUE",
    "PYTHON_VALUE",
    "RESPONSE",
    "ROWS",
    "SECRET",
    "TRANSFER_RESULT",
    "WAIT_VALUE",
]

RESPONSE: Mapping[str, ToolField] = MappingProxyType(
    {
        "status_code": ToolField("The status of the response.", ("number",)),
        "headers": ToolField("The headers of the response, their names in lower case.", ("mapping",)),
        "url": ToolField("The URL of the response, with its query and without its secrets.", ("text",)),
        "elapsed": ToolField("The duration in seconds.", ("number",)),
        "data": ToolField(
            "The body, also as body: JSON as values, text as text, any other as {base64}; null when it is empty."
        ),
    }
)

ARTIFACT: Mapping[str, ToolField] = MappingProxyType(
    {
        "uri": ToolField("The address of the object.", ("text",)),
        "size_bytes": ToolField("The size of the value in bytes, not compressed.", ("number",)),
        "sha256": ToolField("The SHA-256 of the value, not compressed, in hexadecimal digits.", ("text",)),
        "data": ToolField("The value, with get: JSON as values, text as text, any other as {base64}."),
    }
)

ROWS: Mapping[str, ToolField] = MappingProxyType(
    {
        "status": ToolField("Always success: a failed statement is an error, and has no result.", ("text",)),
        "rows": ToolField("The rows of the last statement, each a mapping of column to value.", ("list",)),
        "columns": ToolField("The names of its columns.", ("list",)),
        "row_count": ToolField("The number of rows, or of changed rows if it returns none.", ("number",)),
        "statement_count": ToolField("The number of statements that ran.", ("number",)),
        "statements": ToolField("The rows, columns and row_count of each statement, if there are several.", ("list",)),
    }
)

DUCKDB_ROWS: Mapping[str, ToolField] = MappingProxyType(
    {**ROWS, "database_path": ToolField("The file of the database.", ("text",))}
)

SECRET: Mapping[str, ToolField] = MappingProxyType(
    {
        "secret_value": ToolField("A reference to the secret, resolved in the call that uses it.", ("text",)),
        "value": ToolField("The same.", ("text",)),
    }
)

OUTPUT: Mapping[str, ToolField] = MappingProxyType(
    {
        "exit_code": ToolField(
            "The exit status of the last command that ran; 128 plus the number of the signal that ended it.",
            ("number",),
        ),
        "stdout": ToolField("The standard output of the commands, at most 256 KB.", ("text",)),
        "stderr": ToolField("The standard error of the commands, at most 256 KB.", ("text",)),
    }
)

MEASUREMENT: Mapping[str, ToolField] = MappingProxyType(
    {
        "job_id": ToolField("The id of the job at the provider.", ("text",)),
        "counts": ToolField(
            "How often each bit string was measured; the first bit is the last character.", ("mapping",)
        ),
        "metadata": ToolField(
            "What is needed to repeat the run: provider, backend, backend_version, calibrated_at, shots, seed, params, "
            "tags and transpiler.",
            ("mapping",),
        ),
    }
)

TRANSFER_RESULT: Mapping[str, ToolField] = MappingProxyType(
    {
        "status": ToolField("Always success: a failed transfer is an error, and has no result.", ("text",)),
        "rows_transferred": ToolField("The number of rows that were stored.", ("number",)),
        "chunks": ToolField("The number of batches.", ("number",)),
        "source": ToolField("The type of the source.", ("text",)),
        "target": ToolField("The type of the target.", ("text",)),
    }
)

NATS_VALUE = "A mapping with the operation and its result."

PYTHON_VALUE = "The variable result, or what the function main returns: any JSON value."

NOOP_VALUE = 'The field "result". Without one it is a mapping of the fields, the names of input, and a status noop.'

PLAYBOOK_VALUE = (
    "The result of the playbook, or of its return_step. With wait: false a mapping of the execution_id, workflow_id, "
    "path and version of the run that was started."
)

WAIT_VALUE = "The payload of the signal; null if the task waited for a time."

DECISION: Mapping[str, ToolField] = MappingProxyType(
    {
        "approved": ToolField("Whether it was approved; a rejection is a success with false here.", ("flag",)),
        "by": ToolField("The name that the decider gave.", ("text",)),
        "at": ToolField("When, in ISO 8601, UTC.", ("text",)),
        "reason": ToolField("The reason, empty by default.", ("text",)),
        "form": ToolField("The fields of the form, null where one was not filled in.", ("mapping",)),
    }
)
