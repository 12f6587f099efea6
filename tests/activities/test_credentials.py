"""Names to credentials, and no secret in what leaves."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.credential_fields import FIELDS
from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.credentials_file import read_credentials
from noetl_activities.errors import CredentialError
from noetl_activities.postgres import connect as postgres_connect


def credentials(file: Path | None = None, **environment: Any) -> Credentials:
    variables = {f"NOETL_CREDENTIAL_{name}": json.dumps(fields) for name, fields in environment.items()}
    return Credentials(CredentialSource(file, environment=variables))


async def test_a_name_is_found_in_the_file_then_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "credentials.yaml"
    file.write_text("a: {type: bearer, token: from-file}\n")
    known_credentials = credentials(file, A={"token": "elsewhere"}, B_C={"token": "from-environment"})
    assert (await known_credentials.resolve("a"))["token"] == "from-file"
    assert (await known_credentials.resolve("b-c"))["token"] == "from-environment"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mine: {type: bearer, tokn: hush}", 'the credential \'mine\': unknown key "tokn" (did you mean "token"?)'),
        ("mine: {type: bearer, tokn: hush}", "allowed: access_token, api_key, description, tags, token, type, value"),
        ("mine: {type: [hush], db_host: hush}", "the credential 'mine': its type is not a string; allowed: postgres, "),
        ("mine: {hots: hush}", 'the credential \'mine\': unknown key "hots" (did you mean "host"?)'),
        ("mine: {type: postgres, data: {token: hush}}", "the credential 'mine': unknown key \"token\""),
        ("mine: hush", "the credential 'mine' is not a mapping: write {type: ..., ...}"),
        ("- {name: mine, type: bearer, token: hush}", "entry 1 ('mine'): unknown key \"token\""),
        ("- {name: mine, type: bearer, data: {user: hush}}", "the credential 'mine': unknown key \"user\""),
        ("good: {token: hush}\nmine: {odd: hush}", "the credential 'mine': unknown key \"odd\""),
    ],
)
def test_an_entry_with_unknown_fields_is_reported_without_values(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(CredentialError) as failure:
        read_credentials(tmp_path / "c.yaml")
    assert str(failure.value).startswith(f"{tmp_path}/c.yaml: ")
    assert says in str(failure.value)
    assert "hush" not in _with_causes(failure.value)


@pytest.mark.parametrize(
    "fields",
    [
        "type: postgres, db_host: h, db_user: u, db_password: p, sslmode: require",
        "type: postgres, dsn: 'postgresql://u:p@h/d', description: the one, tags: [a]",
        "type: Basic, username: u, password: p",
        "type: apikey, header_name: X, value: v",
        "api_key: k",
    ],
)
def test_the_fields_that_tools_read_are_allowed(tmp_path: Path, fields: str) -> None:
    (tmp_path / "c.yaml").write_text(f"mine: {{{fields}}}")
    assert list(read_credentials(tmp_path / "c.yaml")) == ["mine"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "{type: kafka, account: hush, private_key: hush}",
            "is of type 'kafka', which no installed tool uses; known",
        ),
        (
            "{type: azure, data: {hmac: hush}}",
            "is of type 'azure', which no installed tool uses; known: postgres, bearer, basic",
        ),
        (
            "{type: postgress, db_host: hush}",
            "is of type 'postgress', which no installed tool uses (did you mean 'postgres'?)",
        ),
    ],
)
async def test_an_entry_of_a_foreign_type_is_refused_only_when_it_is_named(
    tmp_path: Path, entry: str, says: str
) -> None:
    (tmp_path / "c.yaml").write_text(f"foreign: {entry}\napi: {{type: bearer, token: mine}}")
    known_credentials = credentials(tmp_path / "c.yaml")
    assert (await known_credentials.resolve("api"))["token"] == "mine"
    for auth in ("foreign", {"type": "postgres", "credential": "foreign"}):
        with pytest.raises(CredentialError, match="foreign") as failure:
            await known_credentials.resolve(auth)
        assert f"the credential 'foreign' of {tmp_path}/c.yaml {says}" in str(failure.value)
        assert "hush" not in _with_causes(failure.value)


def test_every_field_of_a_postgres_login_is_known() -> None:
    assert postgres_connect.CREDENTIAL_FIELDS | {"schema"} == FIELDS["postgres"]


@pytest.mark.parametrize(
    "text", ["a: {data: {token: t}}", "- {name: a, type: bearer, data: {token: t}}", "a: {token: t}"]
)
async def test_forms_of_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    assert (await credentials(tmp_path / "c.yaml").resolve("a"))["token"] == "t"


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ({"type": "postgres", "credential": "pg"}, {"type": "postgres", "user": "u"}),
        ({"pg": {"type": "postgres", "key": "pg"}}, {"type": "postgres", "user": "u"}),
        ({"token": "own"}, {"token": "own"}),
    ],
)
async def test_forms_of_auth(auth: Any, expected: dict[str, str]) -> None:
    assert dict(await credentials(PG={"user": "u"}).resolve(auth)) == expected


LOGIN = {"username": "someone", "password": "hush"}
ANSWER = {"request_id": "7", "lease_id": "", "lease_duration": 0, "renewable": False, "warnings": None, "auth": None}
OF_VAULT = [
    {"data": {"data": LOGIN, "metadata": {"version": 2}}},
    {**ANSWER, "data": {"data": LOGIN, "metadata": {"version": 2, "custom_metadata": None}}, "mount_type": "kv"},
    {**ANSWER, "data": LOGIN},
    {"data": LOGIN},
]


@pytest.mark.parametrize("answer", OF_VAULT)
async def test_fields_are_read_from_the_response_of_vault(tmp_path: Path, answer: dict[str, Any]) -> None:
    """As `vault kv get -format=json` prints it, in the environment, and in a file, where a type may stand beside it."""
    file = tmp_path / "credentials.yaml"
    file.write_text(json.dumps({"a": {"type": "basic", **answer}}))
    known_credentials = credentials(file, B=answer)
    assert await known_credentials.resolve("a") == {"type": "basic", **LOGIN}
    assert await known_credentials.resolve("b") == LOGIN
    assert known_credentials.mask_secrets("it is hush") != "it is hush"


@pytest.mark.parametrize("text", ["- hush", "- {name: a, data: hush}", "- {data: {token: hush}}", "- [hush]"])
async def test_a_list_of_other_entries_is_reported_without_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(CredentialError, match=r"c\.yaml: entry 1 is not a credential") as failure:
        await credentials(tmp_path / "c.yaml").resolve("a")
    assert "hush" not in str(failure.value)


async def test_errors_are_reported(tmp_path: Path) -> None:
    known_credentials = Credentials(CredentialSource(environment={"NOETL_CREDENTIAL_BAD": "not json"}))
    for name, message in [
        ("nope", "NOETL_CREDENTIAL_NOPE"),
        ("bad", "is not JSON"),
        (5, "write the name of a credential"),
    ]:
        with pytest.raises(CredentialError, match=message):
            await known_credentials.resolve(name)
    (tmp_path / "c.yaml").write_text("a: [")
    with pytest.raises(CredentialError, match=r"c\.yaml:1:\d+: .* not valid YAML"):
        await credentials(tmp_path / "c.yaml").resolve("a")


PG = {"type": "postgres", "db_host": "h", "db_port": 5432, "db_user": "u", "db_password": "hush-hush"}


@pytest.mark.parametrize(
    "changed_fields",
    [
        {"db_port": 18091},
        {"db_host": "evil"},
        {"host": "evil"},
        {"dsn": "postgresql://evil"},
        {"connection_string": "postgresql://evil"},
        {"url": "https://evil"},
        {"db_user": "other", "db_name": "other"},
        {"sslmode": "disable"},
        {"data": {"db_host": "evil"}},
        {"password": "known"},
        {"db_port": None},
    ],
)
@pytest.mark.parametrize("key", ["credential", "key", "name"])
async def test_a_credential_that_is_named_cannot_be_changed(key: str, changed_fields: dict[str, Any]) -> None:
    for auth in ({key: "pg", **changed_fields}, {"target": {"type": "postgres", key: "pg", **changed_fields}}):
        with pytest.raises(CredentialError, match="a playbook cannot change a credential") as failure:
            await credentials(PG=PG).resolve(auth)
        assert "hush" not in str(failure.value)
        assert all(name in str(failure.value) for name in changed_fields)


@pytest.mark.parametrize(
    "auth", [["pg", {"db_port": 1}], [{"credential": "pg"}, {"db_port": 1}], 5, None, [{"password": "hush"}]]
)
async def test_auth_that_is_neither_name_nor_map_is_refused_without_quoting_it(auth: Any) -> None:
    with pytest.raises(CredentialError, match="neither a string nor a mapping") as failure:
        await credentials(PG=PG).resolve(auth)
    assert "hush" not in str(failure.value)


async def test_fields_beside_an_alias_are_not_those_of_the_credential() -> None:
    resolve = await credentials(PG=PG).resolve({"pg": {"key": "pg"}, "db_port": 1})
    assert "db_password" not in resolve


async def test_fields_allowed_beside_a_credential_name() -> None:
    resolve = await credentials(API={"token": "hush"}).resolve(
        {"type": "api_key", "key": "api", "header_name": "X-Key"}
    )
    assert resolve["header_name"] == "X-Key"
    with pytest.raises(CredentialError, match="has another type than the one in auth"):
        await credentials(PG=PG).resolve({"type": "basic", "credential": "pg"})


@pytest.mark.parametrize(
    ("fields", "secrets"),
    [
        ({"anything": "hush-1", "host": "public"}, ["hush-1"]),
        ({"list": ["hush-1", {"deep": ["hush-2"]}]}, ["hush-1", "hush-2"]),
        ({"dsn": "postgresql://u:hush%2D1@h/d"}, ["postgresql://u:hush%2D1@h/d", "hush-1", "hush%2D1"]),
        ({"neutral": "https://u:hush-1@h/d?x=1"}, ["hush-1"]),
        ({"username": "u", "password": "pw"}, ["u:pw", "dTpwdw=="]),
        ({"pin": 47114711}, ["47114711"]),
    ],
)
async def test_every_value_is_secret_but_for_the_names_that_are_listed(
    fields: dict[str, Any], secrets: list[str]
) -> None:
    known_credentials = credentials(ANY=fields)
    await known_credentials.resolve("any")
    for secret in secrets:
        assert "***" in known_credentials.mask_secrets(f"before {secret} after")
        assert secret not in known_credentials.mask_secrets({"a": [secret]})["a"][0]
    assert known_credentials.mask_secrets("public 5432") == "public 5432"


@pytest.mark.parametrize("fields", [{f"a{n}": f"secret-{n}" for n in range(65)}, {"a": "x" * 20_000}])
async def test_a_credential_that_is_too_large_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(CredentialError, match="over 64 values or 16 KB"):
        await credentials().resolve(fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"password": "hush" "more"}', "line 1, column 21"),
        ('{"password": hush}', "column 14"),
        (f'{{"password": "hush", "port": {"5" * 5000}}}', "a number has too many digits"),
    ],
    ids=["two strings", "no quotes", "a long number"],
)
async def test_a_variable_with_invalid_json_is_reported_with_the_reason(text: str, reason: str) -> None:
    credentials = Credentials(CredentialSource(environment={"NOETL_CREDENTIAL_BAD": text}))
    with pytest.raises(CredentialError, match=reason) as failure:
        await credentials.resolve("bad")
    assert "hush" not in _with_causes(failure.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [hush", "a bracket is not closed"),
        ("a: {password: hush: hush}", "a bracket is not closed"),
        ("a: hush: hush", 'a value that contains ": " must be quoted'),
        ("a: 'hush", "a quote is not closed"),
        ("a: \thush\n\t- hush", "a tab where spaces are expected"),
        ("a: {password: *hush}", "a value that begins with * must be quoted"),
        ("a: {password: @hush}", "a value begins with a character that must be quoted"),
        ("a: !!hush x", "a value that begins with ! must be quoted"),
    ],
)
async def test_invalid_yaml_is_reported_by_position(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    message = rf"c\.yaml:\d+:\d+: the credentials file is not valid YAML: {re.escape(why)}$"
    with pytest.raises(CredentialError, match=message) as failure:
        await credentials(tmp_path / "c.yaml").resolve("a")
    assert "hush" not in _with_causes(failure.value)


def _with_causes(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("name", "hint"), [("pg_loca", r"\(did you mean 'pg_local'\?\)"), ("xyz", r"\(there are pg_local, vault\)")]
)
async def test_an_unknown_name_is_reported_with_the_known_names(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / "c.yaml").write_text("pg_local: {password: hush}\n")
    with pytest.raises(CredentialError, match=f"no credential {name!r} {hint}: add it to") as failure:
        await credentials(tmp_path / "c.yaml", VAULT={"token": "hush"}).resolve(name)
    assert "hush" not in str(failure.value)
