"""The databases and accounts of the embedded Postgres, brought to this state at every start.

- ``noetl``: the event log and large values, of the superuser ``noetl``;
- ``playbooks``: what SQL of playbooks works on, of the account ``playbooks``, which reaches no other database;
- the account ``reader`` reads the event log and nothing else.
"""

from __future__ import annotations

import os
import subprocess

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_place import place

__all__ = ["accepts_login", "set_up_databases"]

PLAYBOOKS, READER = "playbooks", "reader"

# Some connections of the 200 stay free for the mirror and the workers' large values. \\gexec runs what the query gives.
SETUP = """
SET log_min_error_statement = panic;
SELECT format('CREATE ROLE %I', name) FROM unnest(ARRAY['playbooks', 'reader']) AS name
    WHERE name NOT IN (SELECT rolname FROM pg_roles) \\gexec
SELECT 'CREATE DATABASE noetl' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'noetl') \\gexec
ALTER ROLE playbooks LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 150;
ALTER ROLE reader LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 20;
ALTER ROLE reader SET default_transaction_read_only = on;
ALTER ROLE playbooks PASSWORD {playbooks};
ALTER ROLE reader PASSWORD {reader};
SELECT 'CREATE DATABASE playbooks OWNER playbooks'
    WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'playbooks') \\gexec
REVOKE ALL ON DATABASE noetl, postgres, template1, playbooks FROM PUBLIC;
GRANT CONNECT ON DATABASE noetl TO reader;
\\connect noetl
CREATE SCHEMA IF NOT EXISTS noetl;
GRANT USAGE ON SCHEMA noetl TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA noetl TO reader;
ALTER DEFAULT PRIVILEGES FOR ROLE noetl IN SCHEMA noetl GRANT SELECT ON TABLES TO reader;
"""


def accepts_login(home: Home, port: int) -> bool:
    """Whether a server on ``port`` is up and this folder's own: another's does not take our password."""
    return _psql(home, port, "SELECT 1").returncode == 0


def set_up_databases(home: Home, port: int) -> None:
    """Make what is missing; nothing changes where nothing is. Raises StackError."""
    passwords = {account: f"'{home.password(account)}'" for account in (PLAYBOOKS, READER)}
    done = _psql(home, port, SETUP.format(**passwords))
    if done.returncode != 0:
        raise StackError(f"the databases of the embedded Postgres cannot be set up:\n{done.stderr.strip()}")


def _psql(home: Home, port: int, script: str) -> subprocess.CompletedProcess[str]:
    # Variables like PGOPTIONS and a person's .psqlrc are for servers of theirs.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    login = ["-h", "127.0.0.1", "-p", str(port), "-U", "noetl", "-d", "postgres"]
    return subprocess.run(
        [str(place().binaries / "psql"), "-qXAtw", "-v", "ON_ERROR_STOP=1", *login],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        env={**ours, "PGPASSWORD": home.password("postgres"), "PGCONNECT_TIMEOUT": "5"},
    )
