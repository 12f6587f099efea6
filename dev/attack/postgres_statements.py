"""SQL with which an account of the embedded Postgres tries to access more than its database."""

from __future__ import annotations

__all__ = ["OF_THE_LOG", "REFUSED", "SPOILING"]

_REFUSED = """
DELETE FROM event
CREATE DATABASE another
DROP DATABASE noetl
DROP DATABASE playbooks
ALTER DATABASE playbooks CONNECTION LIMIT 0
ALTER DATABASE playbooks SET statement_timeout = 1
ALTER DATABASE playbooks OWNER TO playbooks
CREATE ROLE another
ALTER ROLE playbooks SUPERUSER
ALTER ROLE playbooks VALID UNTIL 'yesterday'
ALTER ROLE playbooks NOLOGIN
ALTER ROLE reader RENAME TO another
ALTER ROLE noetl PASSWORD 'x'
ALTER ROLE reader PASSWORD 'x'
ALTER ROLE ALL SET statement_timeout = 1
DROP ROLE reader
GRANT pg_read_server_files TO playbooks
GRANT noetl TO playbooks
SET ROLE noetl
SET ROLE pg_execute_server_program
SET SESSION AUTHORIZATION noetl
COPY (SELECT 1) TO PROGRAM 'cat'
CREATE TEMP TABLE one (id int); COPY one FROM PROGRAM 'echo 1'
COPY (SELECT 1) TO '/tmp/noetl-one'
CREATE TEMP TABLE one (line text); COPY one FROM '/etc/passwd'
SELECT pg_read_file('PG_VERSION')
SELECT pg_read_binary_file('PG_VERSION')
SELECT pg_ls_dir('.')
SELECT pg_stat_file('PG_VERSION')
SELECT pg_ls_logdir()
SELECT pg_current_logfile()
SELECT lo_import('/etc/passwd')
SELECT lo_export(lo_create(0), '/tmp/noetl-one')
ALTER SYSTEM SET archive_command = 'true'
SELECT pg_reload_conf()
SELECT rolpassword FROM pg_authid
SELECT passwd FROM pg_shadow
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_ident_file_mappings
SELECT * FROM pg_file_settings
SHOW unix_socket_directories
SHOW data_directory
SHOW hba_file
SET event_triggers = on
SET session_preload_libraries = 'x'
LOAD 'plpgsql'
CREATE FUNCTION one() RETURNS int LANGUAGE c AS '/tmp/one.so'
CREATE FUNCTION one() RETURNS int LANGUAGE internal AS 'pg_reload_conf'
CREATE EVENT TRIGGER one ON login EXECUTE FUNCTION one()
CREATE SUBSCRIPTION one CONNECTION 'host=127.0.0.1' PUBLICATION one
CREATE TABLESPACE one LOCATION '/tmp'
SELECT pg_create_physical_replication_slot('one')
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'noetl'
SELECT * FROM pg_backend_memory_contexts
CHECKPOINT
"""
REFUSED = _REFUSED.strip().splitlines()
"""What the account ``playbooks`` may not do."""

SPOILING = (
    "ALTER ROLE CURRENT_USER PASSWORD 'x'",
    "ALTER ROLE CURRENT_USER PASSWORD NULL",
    "DROP OWNED BY CURRENT_USER",
    "REVOKE ALL ON DATABASE playbooks FROM CURRENT_USER",
    "DROP SCHEMA IF EXISTS public CASCADE",
    "ALTER ROLE CURRENT_USER SET search_path = nowhere",
    "ALTER ROLE CURRENT_USER SET default_transaction_read_only = on",
)
"""What every account may do to itself: it must not keep the next playbook out."""

OF_THE_LOG = (
    "DELETE FROM noetl.event",
    "CREATE TEMP TABLE one (id int)",
    "CREATE TABLE noetl.one (id int)",
    *(f"SELECT FROM noetl.{table}" for table in ("history", "payload", "payload_owner", "cursor")),
)
"""What the account ``reader`` may not do."""
