"""The databases and accounts of the embedded Postgres, created or restored at every start:

- the database ``noetl`` has the event log and large values; its owner is the superuser ``noetl``;
- the database ``playbooks`` is for the SQL of playbooks; the account ``playbooks`` can connect to no other;
- the account ``reader`` can read the event log and nothing else.

Postgres lets every account change its own password and defaults, and drop the rights it was granted (DROP OWNED). None
of that may break the next playbook. So logins do not depend on the password (cluster_files.py), rights are granted to
PUBLIC (those on the event log in mirror/sql), the databases belong to ``noetl``, and defaults are removed here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_location import locate_postgres
from noetl_temporal.stack.server_environment import server_environment

__all__ = ["accepts_login", "set_up_databases"]

PLAYBOOKS, READER = "playbooks", "reader"

# While a database is set up, none of its code runs, and no password is written to the server's log.
SESSION_OPTIONS = (
    "-c event_triggers=off -c session_preload_libraries= -c local_preload_libraries= "
    "-c search_path=pg_catalog -c log_min_error_statement=panic"
)

# The limits leave some of the 200 connections to the mirror and to the workers' large values. \\gexec runs each row of
# the query's result as SQL.
SETUP_SQL = """
DELETE FROM pg_db_role_setting;
SELECT format('CREATE ROLE %I', name) FROM unnest(ARRAY['playbooks', 'reader']) AS name
    WHERE name NOT IN (SELECT rolname FROM pg_roles) \\gexec
SELECT format('REVOKE %s FROM %s GRANTED BY %s CASCADE', roleid::regrole, member::regrole, grantor::regrole)
    FROM pg_auth_members WHERE member::regrole::text IN ('playbooks', 'reader') \\gexec
SELECT 'CREATE DATABASE noetl' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'noetl') \\gexec
SELECT 'CREATE DATABASE playbooks' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'playbooks') \\gexec
ALTER ROLE playbooks LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 150;
ALTER ROLE reader LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 20;
ALTER ROLE reader SET default_transaction_read_only = on;
ALTER ROLE playbooks PASSWORD {playbooks};
ALTER ROLE reader PASSWORD {reader};
ALTER DATABASE playbooks OWNER TO noetl;
REVOKE ALL ON DATABASE noetl, postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE noetl TO PUBLIC;
GRANT ALL ON DATABASE playbooks TO PUBLIC;
\\connect playbooks
SELECT 'CREATE SCHEMA public' WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') \\gexec
ALTER SCHEMA public OWNER TO playbooks;
\\connect noetl
CREATE SCHEMA IF NOT EXISTS noetl;
GRANT USAGE ON SCHEMA noetl TO PUBLIC;
"""


def accepts_login(home: Home, socket_folder: Path, port: int) -> bool:
    """Whether the server of this stack accepts connections."""
    return _psql(home, socket_folder, port, "SELECT 1").returncode == 0


def set_up_databases(home: Home, socket_folder: Path, port: int) -> None:
    """Create what is missing and undo what accounts have changed. Raises StackError."""
    passwords = {account: f"'{home.password(account)}'" for account in (PLAYBOOKS, READER)}
    result = _psql(home, socket_folder, port, SETUP_SQL.format(**passwords))
    if result.returncode != 0:
        raise StackError(f"the databases of the embedded Postgres cannot be set up:\n{result.stderr.strip()}")


def _psql(home: Home, socket_folder: Path, port: int, script: str) -> subprocess.CompletedProcess[str]:
    login = ["-h", str(socket_folder), "-p", str(port), "-U", "noetl", "-d", "postgres"]
    settings = {
        "PGPASSWORD": home.password("postgres"),
        "PGREQUIREAUTH": "scram-sha-256",
        "PGCONNECT_TIMEOUT": "5",
        "PGOPTIONS": SESSION_OPTIONS,
    }
    return subprocess.run(
        [str(locate_postgres().binaries / "psql"), "-qXAtw", "-v", "ON_ERROR_STOP=1", *login],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        env={**server_environment(home), **settings},
    )
