"""DSNs are read strictly, and what is said of one has no part of its password."""

from __future__ import annotations

import inspect
from typing import Any

import asyncpg
import pytest
from asyncpg import connect_utils
from hypothesis import given
from hypothesis import strategies as st

from noetl_activities.postgres.dsn import DsnError, dsn_fields, dsn_location, dsn_password

READ = [
    ("postgresql://u:p@h:5433/d", {"user": "u", "password": "p", "host": "h", "port": "5433", "database": "d"}),
    ("postgres://u@h", {"user": "u", "host": "h", "port": "5432"}),
    (
        "postgresql://u:p%40%2F@h/d%20e",
        {"user": "u", "password": "p@/", "host": "h", "port": "5432", "database": "d e"},
    ),
    ("postgresql://u:p:q@[::1]:1/d", {"user": "u", "password": "p:q", "host": "::1", "port": "1", "database": "d"}),
    ("postgresql://a:1,b/d", {"host": "a,b", "port": "1,5432", "database": "d"}),
    ("postgresql:///d?host=/tmp/s&port=7&user=u", {"host": "/tmp/s", "port": "7", "user": "u", "database": "d"}),
    ("postgresql://%2Ftmp%2Fs/d", {"host": "/tmp/s", "port": "5432", "database": "d"}),
    ("postgresql://h/d?sslmode=require&application_name=x%20y", {"sslmode": "require", "application_name": "x y"}),
]


@pytest.mark.parametrize(("dsn", "fields"), READ)
def test_a_dsn_is_read(dsn: str, fields: dict[str, str]) -> None:
    found = dsn_fields(dsn)
    assert {name: found[name] for name in fields} == fields


def read_by_the_driver(dsn: str) -> tuple[list[Any], Any]:
    """(addresses, parameters), without connecting."""
    parse: Any = vars(connect_utils)["_parse_connect_dsn_and_args"]
    arguments = {**dict.fromkeys(inspect.signature(parse).parameters), "dsn": dsn}
    addresses, parameters = parse(**arguments)
    return addresses, parameters


@pytest.mark.parametrize("dsn", [dsn for dsn, _ in READ])
def test_the_driver_reads_the_same(dsn: str) -> None:
    ours = dsn_fields(dsn)
    addresses, parameters = read_by_the_driver(dsn)
    for host, port, address in zip(ours["host"].split(","), ours["port"].split(","), addresses, strict=True):
        assert address == (f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, int(port)))
    assert parameters.password == ours.get("password")
    if "user" in ours:
        assert parameters.user == ours["user"]


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("hush", "it does not begin with postgresql://"),
        ("postgresql://u:hu/sh@h/d", "cannot be parsed from character 21 on"),
        ("postgresql://u:hu@sh@h/d", "cannot be parsed from character 21 on"),
        ("postgresql://u:hu#sh@h/d", "cannot be parsed from character 18 on"),
        ("postgresql://u:1?sh@h/d", "cannot be parsed from character 20 on"),
        ("postgresql://u:hush@h:port/d", "host and port at character 21"),
        ("postgresql://u:hush@h:70000/d", "host and port at character 21"),
        ("postgresql://u:hush@h/d?hush", "parameter 1 after the"),
        ("postgresql://u:hush@h/d?sslmode=require&passfile=/hush", "parameter 2 after the"),
    ],
)
def test_an_invalid_dsn_is_reported_by_position(dsn: str, expected: str) -> None:
    with pytest.raises(DsnError, match=expected) as failure:
        dsn_fields(dsn)
    assert "hu" not in str(failure.value)


PIECES = st.text("ab1:/@?#&=%[] ,", max_size=8)


@given(PIECES, PIECES, st.booleans())
def test_no_message_contains_a_part_of_the_password(before: str, after: str, is_ported: bool) -> None:
    password = f"{before}hush{after}"
    dsn = f"postgresql://user:{password}@host{':5432' if is_ported else ''}/base"
    assert "hush" not in _message(dsn)
    assert dsn_password(dsn) == password


def _message(dsn: str) -> str:
    try:
        dsn_fields(dsn)
        return dsn_location(dsn)
    except DsnError as error:
        return str(error)


def test_control_the_driver_repeats_a_part_of_the_password() -> None:
    with pytest.raises((ValueError, asyncpg.InterfaceError), match="hush"):
        read_by_the_driver("postgresql://user:hush/x@host/base")
