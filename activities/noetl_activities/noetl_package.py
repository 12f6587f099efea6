"""The package ``noetl`` that python tasks of older playbooks import: VarsCache, which reads and sets ctx, and the
credentials of the task.

It exists only in the process of a task. Uses only the standard library.
"""

# The values have any type, and the signatures are those of older NoETL.
# pyright: basic
# ruff: noqa: ARG003

from __future__ import annotations

import re
import sys
import types

TYPE_CHECKING = False  # type checkers treat it as true; importing it from ``typing`` is slow
if TYPE_CHECKING:
    from typing import Any

NAME = re.compile(r"[A-Za-z]\w*")
"""The valid names of variables, which playbooks read as ``ctx.NAME``."""


_variables: dict[str, Any] = {}
changes: dict[str, Any] = {}
"""The variables that the task has set; None for a deleted one."""

_metadata: dict[str, dict[str, Any]] = {}


class VarsCache:
    """The variables of the run. Changes are set in ctx when the task succeeds (semantics.md 16)."""

    @classmethod
    async def get_cached(cls, var_name: str, execution_id: Any = None) -> dict[str, Any] | None:
        """Return ``{value, type, source_step, access_count}``, counted within the task; None for an unknown name."""
        if var_name not in _variables:
            return None
        metadata = _metadata_of(var_name)
        metadata["access_count"] += 1
        return {"value": _variables[var_name], **metadata}

    @classmethod
    async def set_cached(
        cls,
        var_name: str,
        var_value: Any,
        execution_id: Any = None,
        var_type: str = "user_defined",
        source_step: str | None = None,
    ) -> None:
        if not NAME.fullmatch(var_name):
            raise ValueError(f"{var_name!r} is not a variable name: use letters, digits and _, beginning with a letter")
        _variables[var_name] = changes[var_name] = var_value
        _metadata_of(var_name).update(type=var_type, source_step=source_step)

    @classmethod
    async def set_multiple(
        cls,
        variables: dict[str, Any],
        execution_id: Any = None,
        var_type: str = "user_defined",
        source_step: str | None = None,
    ) -> int:
        for name, value in variables.items():
            await cls.set_cached(name, value, execution_id, var_type, source_step)
        return len(variables)

    @classmethod
    async def get_all_vars(cls, execution_id: Any = None) -> dict[str, Any]:
        return dict(_variables)

    @classmethod
    async def get_all_vars_with_metadata(cls, execution_id: Any = None) -> dict[str, dict[str, Any]]:
        return {name: {"value": value, **_metadata_of(name)} for name, value in _variables.items()}

    @classmethod
    async def delete_var(cls, var_name: str, execution_id: Any = None) -> bool:
        if var_name not in _variables:
            return False
        del _variables[var_name]
        changes[var_name] = None
        return True

    @classmethod
    async def cleanup_execution(cls, execution_id: Any = None) -> int:
        names = list(_variables)
        for name in names:
            await cls.delete_var(name)
        return len(names)


def _metadata_of(name: str) -> dict[str, Any]:
    return _metadata.setdefault(name, {"type": "user_defined", "source_step": None, "access_count": 0})


def install(variables: dict[str, Any], credentials: dict[str, dict[str, Any]]) -> None:
    """Make the package importable. A variable that is None counts as deleted."""
    _variables.update((name, value) for name, value in variables.items() if value is not None)

    def fetch_credential_by_key(key: str) -> dict[str, Any]:
        if not key:
            return {}
        if key not in credentials:
            raise LookupError(f"this task does not name the credential {key!r}: write auth: {key} beside its code")
        fields = credentials[key]
        return {"key": key, "type": "", "service": "", "secret_name": key, "scope": None, **fields, "data": fields}

    def fetch_credentials_by_keys(keys: Any) -> dict[str, dict[str, Any]]:
        return {key: fetch_credential_by_key(key) for key in keys or () if key}

    add_module("noetl", worker=add_module("noetl.worker"))
    secrets = {"fetch_credential_by_key": fetch_credential_by_key}
    add_module("noetl.worker.secrets", fetch_credentials_by_keys=fetch_credentials_by_keys, **secrets)
    add_module("noetl.worker.vars_cache", VarsCache=VarsCache)


def add_module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []  # a package, which may have submodules
    vars(module).update(members)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    return module
