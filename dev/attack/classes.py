"""All classes of attacks, by name. A new class is a module with a CLASS, and a line here."""

from __future__ import annotations

from dev.attack import (
    addresses,
    arguments,
    database_server,
    duckdb_reach,
    escapes,
    names,
    postgres_role,
    responses,
    scrubbing,
    signatures,
    stack_files,
    task_answers,
    tasks,
    templates,
    yaml_texts,
)

__all__ = ["CLASSES"]

_MODULES = (
    *(templates, yaml_texts, arguments, addresses, names, escapes, scrubbing),
    *(stack_files, signatures, responses, database_server, postgres_role, duckdb_reach, tasks, task_answers),
)
CLASSES = {module.CLASS.name: module.CLASS for module in _MODULES}
