"""Defaults that a playbook gives the account of all playbooks have no effect on the calls of later ones."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from noetl_activities.postgres.tool import TOOL
from noetl_activities.tool import Json
from noetl_temporal.stack.addresses import SESSION_SETTINGS, Addresses

from .conftest import Context, request

WRONG = {
    "search_path": "evil",
    "role": "playbooks",
    "statement_timeout": "1ms",
    "transaction_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "default_table_access_method": "none",
    "row_security": "off",
    "check_function_bodies": "off",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "bytea_output": "escape",
    "xmloption": "document",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Tokyo",
    "timezone_abbreviations": "India",
    "extra_float_digits": "-15",
    "default_text_search_config": "pg_catalog.german",
    "client_encoding": "LATIN1",
    "synchronous_commit": "off",
}
MEANING = "SELECT name, setting FROM pg_settings WHERE context = 'user' ORDER BY name"

OWN_SETTINGS = (
    "application_name",
    "client_encoding",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
)
"""Settings of the driver, and those of the transaction, which its defaults decide."""

WITHOUT_MEANING = {
    "client_min_messages",
    "createrole_self_grant",
    "default_toast_compression",
    "escape_string_warning",
    "gin_fuzzy_search_limit",
    "gin_pending_list_limit",
    "icu_validation_level",
    "lo_compat_privileges",
    "md5_password_warnings",
    "password_encryption",
    "restrict_nonsystem_relation_kind",
    "scram_iterations",
    "synchronize_seqscans",
    "tcp_keepalives_count",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_user_timeout",
    "vacuum_cost_delay",
}
"""Messages, storage and the network: no statement gives other rows for them, or fails."""


@pytest.fixture
async def superuser(servers: Addresses) -> AsyncGenerator[asyncpg.Connection]:
    connection = await asyncpg.connect(servers.postgres)
    yield connection
    await connection.execute("ALTER ROLE playbooks RESET ALL")
    await connection.close()


async def call(servers: Addresses, query: str) -> Json:
    context = Context(pg=json.loads(servers.environment()["NOETL_CREDENTIAL_PG_LOCAL"]))
    outcome = await TOOL.run(request("postgres", "pg", query=query), context)
    assert outcome.error is None, outcome.error
    return outcome.result


async def test_defaults_of_the_account_change_no_later_call(servers: Addresses, superuser: asyncpg.Connection) -> None:
    before = await call(servers, MEANING)
    await call(servers, "; ".join(f"ALTER ROLE playbooks SET {name} = '{value}'" for name, value in WRONG.items()))
    no_limits = {name: "0" for name in WRONG if name.endswith("_timeout")}
    connection = await asyncpg.connect(servers.playbooks, server_settings=no_limits)
    try:
        assert await connection.fetchval("SHOW bytea_output") == "escape"
    finally:
        await connection.close()
    assert await call(servers, MEANING) == before
    await call(servers, "CREATE TABLE works AS SELECT 1 AS one; DROP TABLE works")


async def test_every_setting_that_gives_a_statement_another_meaning_is_in_the_login(
    superuser: asyncpg.Connection,
) -> None:
    """All that an account may set, but for how a query is planned, what is logged, and how much memory it has."""
    records = await superuser.fetch(
        "SELECT lower(name) FROM pg_settings WHERE context = 'user' AND category ~ "
        "'^(Client Connection Defaults|Version and Platform Compatibility|Connections)'"
    )
    setting_names = {part.partition("=")[0].lower() for part in SESSION_SETTINGS.split() if part != "-c"}
    assert {name for (name,) in records} - setting_names - WITHOUT_MEANING - set(OWN_SETTINGS) == set()
