"""SQL of playbooks against the embedded Postgres: statements that leave the account's database, logins to others, and
what an account may do to itself. The class has a stack of its own.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import asyncpg

from dev.attack.attack import Attack, AttackClass
from dev.attack.postgres_statements import OF_THE_LOG, REFUSED, SPOILING
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack

__all__ = ["CLASS"]

SECONDS = 30
"""Of one statement."""

RESET_STATEMENTS = "SET default_transaction_read_only = off; SET search_path = public, pg_catalog"
"""Statements that reset the defaults of an account, which an earlier attack may have changed."""

DATABASES = {"playbooks": "playbooks", "reader": "noetl", "noetl": "noetl"}
_BODY = "LANGUAGE plpgsql AS $x$ BEGIN EXECUTE $q${}$q$; END $x$"
WRAPPERS = {
    "plain": "{}",
    "in a comment's shade": "/* {{ */ {} -- }}",
    "after a reset of the role": "RESET ROLE; RESET SESSION AUTHORIZATION; {}",
    "in a block": "DO $x$ BEGIN EXECUTE $q${}$q$; END $x$",
    "in a function": f"CREATE FUNCTION pg_temp.f() RETURNS void {_BODY}; SELECT pg_temp.f()",
    "in a function with its owner's rights": f"CREATE FUNCTION pg_temp.f() RETURNS void SECURITY DEFINER {_BODY}; "
    "SELECT pg_temp.f()",
    "in a trigger": "CREATE TEMP TABLE t (id int); CREATE FUNCTION pg_temp.f() RETURNS trigger LANGUAGE plpgsql AS $x$ "
    "BEGIN EXECUTE $q${}$q$; RETURN NEW; END $x$; CREATE TRIGGER one BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION "
    "pg_temp.f(); INSERT INTO t VALUES (1)",
}
OUTSIDE_TRANSACTION = (
    "CREATE DATABASE",
    "DROP DATABASE",
    "ALTER SYSTEM",
    "CREATE TABLESPACE",
    "CREATE SUBSCRIPTION",
    "CHECKPOINT",
)
"""Statements that Postgres refuses in a transaction, before it checks privileges."""

REFUSALS = (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedTableError)
NO_LOGIN = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
)


class _Stack:
    """The stack that is attacked. With its guard off, the attacker has the account that owns everything."""

    addresses: Addresses
    is_guarded = True

    @classmethod
    def password(cls, user: str) -> str:
        of = cls.addresses
        return {"playbooks": of.playbooks_password, "reader": of.reader_password}.get(user, of.postgres_password)


async def _connected(user: str, database: str, password: str, *, by_socket: bool) -> asyncpg.Connection:
    dsn = _Stack.addresses.postgres if by_socket else _Stack.addresses.postgres_tcp
    return await asyncpg.connect(dsn, user=user, password=password, database=database, command_timeout=SECONDS)


async def _is_performed(statement: str, account: str) -> bool:
    """Run the statement beside a session of the owner, which some statements look for."""
    user = account if _Stack.is_guarded else "noetl"
    owners = await _connected("noetl", "noetl", _Stack.password("noetl"), by_socket=True)
    attacker = await _connected(user, DATABASES[user], _Stack.password(user), by_socket=True)
    try:
        await attacker.execute(RESET_STATEMENTS)
        await attacker.execute(statement)
    except REFUSALS:
        return False
    finally:
        await attacker.close()
        await owners.close()
    return True


def _statement(chance: random.Random) -> Attack:
    account = chance.choice(("playbooks", "playbooks", "reader"))
    if account == "reader":
        own = [statement for statement in (*REFUSED, *OF_THE_LOG) if "reader" not in statement]
        text, wrapper = chance.choice(own), chance.choice(("plain", "in a block", "after a reset of the role"))
    else:
        text, wrapper = chance.choice(REFUSED), chance.choice(list(WRAPPERS))
    return _of_statement(text, "plain" if text.startswith(OUTSIDE_TRANSACTION) else wrapper, account)


def _of_statement(text: str, wrapper: str, account: str) -> Attack:
    statement = WRAPPERS[wrapper].format(text)
    return Attack(f"{account}, {wrapper}: {text}", partial(_is_performed_by, statement, account))


def _is_performed_by(statement: str, account: str) -> bool:
    return asyncio.run(_is_performed(statement, account))


# ---- logins --------------------------------------------------------------------------------------------------------

USERS = ("playbooks", "reader", "noetl", "postgres", "root", "nobody", "pg_read_server_files")
TARGETS = ("noetl", "playbooks", "postgres", "template1", "template0")
GUESSES = ("", "noetl", "postgres", "playbooks", "password", "SCRAM-SHA-256$4096:")


def _login(chance: random.Random) -> Attack:
    """An account with its own password at another's database, or any with a password that is not its own."""
    by_socket = chance.random() < 0.5
    if chance.random() < 0.5:
        user = chance.choice(("playbooks", "reader"))
        database = chance.choice([target for target in TARGETS if target != DATABASES[user]])
        return _of_login(user, database, f"@{user}", by_socket)
    user = chance.choice(USERS)
    known = by_socket and user in ("playbooks", "reader")  # the kernel authenticates there: a password has no effect
    password = (
        f"@{user}" if known else chance.choice((*GUESSES, *(f"@{other}" for other in DATABASES if other != user)))
    )
    database = chance.choice([target for target in TARGETS if not known or target != DATABASES[user]])
    return _of_login(user, database, password, by_socket)


def _of_login(user: str, database: str, password: str, by_socket: bool) -> Attack:
    what = f"{user} at {database} by {'socket' if by_socket else 'TCP'} with the password {password!r}"
    return Attack(what, partial(_logs_in, user, database, password, by_socket))


def _logs_in(user: str, database: str, password: str, by_socket: bool) -> bool:
    """``password`` is a guess, or ``@`` and whose password it is."""

    async def attempt() -> bool:
        name = user if _Stack.is_guarded else "noetl"
        whose = password.removeprefix("@") if _Stack.is_guarded else "noetl"
        known = _Stack.password(whose) if password.startswith("@") else password
        try:
            connection = await _connected(name, database, known, by_socket=by_socket)
        except NO_LOGIN:
            return False
        await connection.close()
        return True

    return asyncio.run(attempt())


# ---- what an account does to itself --------------------------------------------------------------------------------


def _self_harm(chance: random.Random) -> Attack:
    account, text = chance.choice(("playbooks", "reader")), chance.choice(SPOILING)
    return Attack(f"{account}: {text}", partial(_keeps_others_out, account, text))


def _keeps_others_out(account: str, text: str) -> bool:
    async def attempt() -> bool:
        connection = await _connected(account, DATABASES[account], "", by_socket=True)
        await connection.execute(RESET_STATEMENTS)
        with suppress(asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError):
            await connection.execute(text)
        await connection.close()
        following = await _connected(account, DATABASES[account], "", by_socket=True)
        answer = await following.fetchval("SELECT 7")
        await following.close()
        return bool(answer != 7)

    return asyncio.run(attempt())


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    """Of six, one is a login and one does something to itself."""
    for index in range(count):
        yield {4: _login, 5: _self_harm}.get(index % 6, _statement)(chance)


def _unguarded() -> AbstractContextManager[object]:
    return patch.object(_Stack, "is_guarded", False)


@contextmanager
def _site() -> Generator[None]:
    """A stack with the tables of the event log."""
    with owned_stack(Home(Path(tempfile.mkdtemp(), "stack")), "run") as (_, addresses):
        asyncio.run(migrate(addresses.postgres))
        with patch.object(_Stack, "addresses", addresses, create=True):
            yield


CLASS = AttackClass(
    "postgres",
    _attacks,
    (
        _of_statement("SELECT pg_read_file('PG_VERSION')", "in a function", "playbooks"),
        _of_statement("COPY (SELECT 1) TO PROGRAM 'cat >/dev/null'", "in a block", "playbooks"),
        _of_statement("SELECT rolpassword FROM pg_authid", "plain", "reader"),
        _of_statement("SHOW data_directory", "in a trigger", "playbooks"),
        _of_login("playbooks", "postgres", "@playbooks", by_socket=True),
    ),
    _unguarded,
    _site,
)
