"""Where a running stack is reached, as it stands in ``stack.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["Addresses"]

CREDENTIALS = ("pg_local", "pg_k8s", "test_postgres")
LOOPBACK = "localhost,127.0.0.0/8,::1"


class Addresses(msgspec.Struct, frozen=True):
    """``pid`` is the owner's; a ``dev`` stack stays until ``noetl dev down``, a ``run`` stack ends with its run."""

    pid: int
    mode: Literal["dev", "run"]
    temporal: str
    ui: str
    postgres_port: int
    postgres_password: str

    @property
    def postgres(self) -> str:
        """The DSN of the embedded Postgres."""
        return f"postgresql://noetl:{self.postgres_password}@127.0.0.1:{self.postgres_port}/noetl"

    @property
    def postgres_without_password(self) -> str:
        """The DSN as it may be shown anywhere."""
        return f"postgresql://noetl@127.0.0.1:{self.postgres_port}/noetl"

    def environment(self) -> dict[str, str]:
        """The variables by which a client, a worker or a mirror finds this stack and may use it.

        Playbooks written for a laptop or for kind find its Postgres under the names they use, and tools may call what
        runs on this machine."""
        login = {
            "type": "postgres",
            "db_host": "127.0.0.1",
            "db_port": self.postgres_port,
            "db_user": "noetl",
            "db_password": self.postgres_password,
            "db_name": "noetl",
        }
        given = {f"NOETL_CREDENTIAL_{name.upper()}": json.dumps(login) for name in CREDENTIALS}
        given["NOETL_HTTP_ALLOW"] = LOOPBACK
        chosen = {name: os.environ.get(name, value) for name, value in given.items()}
        return {"TEMPORAL_ADDRESS": self.temporal, "NOETL_POSTGRES": self.postgres, **chosen}

    def write(self, path: Path) -> None:
        """Publish at ``path``, whole or not at all, readable by the owner alone (it holds the password)."""
        draft = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self))
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Addresses | None:
        """What stands at ``path``; None when nothing readable does."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None
