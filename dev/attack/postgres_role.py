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
"""The timeout of one statement."""

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
        addresses = cls.addresses
        return {"playbooks": addresses.playbooks_password, "reader": addresses.reader_password}.get(
            user, addresses.postgres_password
        )


async def _connect(user: str, database: str, password: str, *, by_socket: bool) -> asyncpg.Connection:
    dsn = _Stack.addresses.postgres if by_socket else _Stack.addresses.postgres_tcp
    return await asyncpg.connect(dsn, user=user, password=password, database=database, command_timeout=SECONDS)


async def _is_performed(statement: str, account: str) -> bool:
    """Run the statement beside a session of the owner, which some statements look for."""
    user = account if _Stack.is_guarded else "noetl"
    owner_session = await _connect("noetl", "noetl", _Stack.password("noetl"), by_socket=True)
    attacker = await _connect(user, DATABASES[user], _Stack.password(user), by_socket=True)
    try:
        await attacker.execute(RESET_STATEMENTS)
        await attacker.execute(statement)
    except REFUSALS:
        return False
    finally:
        await attacker.close()
        await owner_session.close()
    return True


def _statement(rng: random.Random) -> Attack:
    account = rng.choice(("playbooks", "playbooks", "reader"))
    if account == "reader":
        statements = [statement for statement in (*REFUSED, *OF_THE_LOG) if "reader" not in statement]
        text, wrapper = rng.choice(statements), rng.choice(("plain", "in a block", "after a reset of the role"))
    else:
        text, wrapper = rng.choice(REFUSED), rng.choice(list(WRAPPERS))
    return _statement_attack(text, "plain" if text.startswith(OUTSIDE_TRANSACTION) else wrapper, account)


def _statement_attack(text: str, wrapper: str, account: str) -> Attack:
    statement = WRAPPERS[wrapper].format(text)
    return Attack(f"{account}, {wrapper}: {text}", partial(_is_performed_by, statement, account))


def _is_performed_by(statement: str, account: str) -> bool:
    return asyncio.run(_is_performed(statement, account))


# ---- logins --------------------------------------------------------------------------------------------------------

USERS = ("playbooks", "reader", "noetl", "postgres", "root", "nobody", "pg_read_server_files")
TARGETS = ("noetl", "playbooks", "postgres", "template1", "template0")
GUESSES = ("", "noetl", "postgres", "playbooks", "password", "SCRAM-SHA-256$4096:")


def _login(rng: random.Random) -> Attack:
    """An account with its own password at another's database, or any with a password that is not its own."""
    by_socket = rng.random() < 0.5
    if rng.random() < 0.5:
        user = rng.choice(("playbooks", "reader"))
        database = rng.choice([target for target in TARGETS if target != DATABASES[user]])
        return _login_attack(user, database, f"@{user}", by_socket)
    user = rng.choice(USERS)
    is_authenticated = by_socket and user in (
        "playbooks",
        "reader",
    )  # the kernel authenticates there: a password has no effect
    password = (
        f"@{user}"
        if is_authenticated
        else rng.choice((*GUESSES, *(f"@{other}" for other in DATABASES if other != user)))
    )
    database = rng.choice([target for target in TARGETS if not is_authenticated or target != DATABASES[user]])
    return _login_attack(user, database, password, by_socket)


def _login_attack(user: str, database: str, password: str, by_socket: bool) -> Attack:
    description = f"{user} at {database} by {'socket' if by_socket else 'TCP'} with the password {password!r}"
    return Attack(description, partial(_logs_in, user, database, password, by_socket))


def _logs_in(user: str, database: str, password: str, by_socket: bool) -> bool:
    """Whether the login succeeds. ``password`` is a guess, or ``@`` and the account whose password it is."""

    async def attempt() -> bool:
        name = user if _Stack.is_guarded else "noetl"
        owner = password.removeprefix("@") if _Stack.is_guarded else "noetl"
        real_password = _Stack.password(owner) if password.startswith("@") else password
        try:
            connection = await _connect(name, database, real_password, by_socket=by_socket)
        except NO_LOGIN:
            return False
        await connection.close()
        return True

    return asyncio.run(attempt())


# ---- what an account does to itself --------------------------------------------------------------------------------


def _self_harm(rng: random.Random) -> Attack:
    account, text = rng.choice(("playbooks", "reader")), rng.choice(SPOILING)
    return Attack(f"{account}: {text}", partial(_keeps_others_out, account, text))


def _keeps_others_out(account: str, text: str) -> bool:
    async def attempt() -> bool:
        connection = await _connect(account, DATABASES[account], "", by_socket=True)
        await connection.execute(RESET_STATEMENTS)
        with suppress(asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError):
            await connection.execute(text)
        await connection.close()
        following = await _connect(account, DATABASES[account], "", by_socket=True)
        result = await following.fetchval("SELECT 7")
        await following.close()
        return bool(result != 7)

    return asyncio.run(attempt())


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Of six, one is a login and one does something to itself."""
    for index in range(count):
        yield {4: _login, 5: _self_harm}.get(index % 6, _statement)(rng)


def _disable_guard() -> AbstractContextManager[object]:
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
        _statement_attack("SELECT pg_read_file('PG_VERSION')", "in a function", "playbooks"),
        _statement_attack("COPY (SELECT 1) TO PROGRAM 'cat >/dev/null'", "in a block", "playbooks"),
        _statement_attack("SELECT rolpassword FROM pg_authid", "plain", "reader"),
        _statement_attack("SHOW data_directory", "in a trigger", "playbooks"),
        _login_attack("playbooks", "postgres", "@playbooks", by_socket=True),
    ),
    _disable_guard,
    _site,
)
