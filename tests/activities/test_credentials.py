"""Names to credentials, and no secret in what leaves."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.errors import CredentialError
from noetl_activities.scrub import scrub


def credentials(file: Path | None = None, **environment: Any) -> Credentials:
    named = {f"NOETL_CREDENTIAL_{name}": json.dumps(fields) for name, fields in environment.items()}
    return Credentials(CredentialSource(file, environment=named))


async def test_a_name_is_found_in_the_file_then_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "credentials.yaml"
    file.write_text("a: {type: bearer, token: from-file}\n")
    found = credentials(file, A={"token": "elsewhere"}, B_C={"token": "from-environment"})
    assert (await found.resolve("a"))["token"] == "from-file"
    assert (await found.resolve("b-c"))["token"] == "from-environment"


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


@pytest.mark.parametrize("text", ["- hush", "- {name: a, data: hush}", "- {data: {token: hush}}", "- [hush]"])
async def test_a_list_of_something_else_is_told_without_its_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(CredentialError, match=r"c\.yaml: entry 1 is no credential") as told:
        await credentials(tmp_path / "c.yaml").resolve("a")
    assert "hush" not in str(told.value)


async def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    found = Credentials(CredentialSource(environment={"NOETL_CREDENTIAL_BAD": "not json"}))
    for name, message in [("nope", "NOETL_CREDENTIAL_NOPE"), ("bad", "is not JSON"), (5, "write a credential's name")]:
        with pytest.raises(CredentialError, match=message):
            await found.resolve(name)
    (tmp_path / "c.yaml").write_text("a: [")
    with pytest.raises(CredentialError, match=r"c\.yaml:1:\d+: .* not valid YAML"):
        await credentials(tmp_path / "c.yaml").resolve("a")


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=4, max_size=30)


@given(SECRETS, st.text(max_size=10), st.text(max_size=10))
def test_no_form_of_a_secret_survives(secret: str, before: str, after: str) -> None:
    forms = {secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()}
    value = {"texts": [before + form + after for form in sorted(forms)], secret: {"deep": [1, None, secret]}}
    left = json.dumps(scrub(value, {secret}), ensure_ascii=False)
    kept = json.dumps([before, after, "texts", "deep", "***"], ensure_ascii=False)
    assert not any(form in left for form in forms if form not in kept)


def test_what_is_no_secret_stays() -> None:
    value = {"a": [1, None, True, "text"]}
    assert scrub(value, {"hush"}) == value
    assert scrub({"pin": 4711, "port": 5432}, {"4711"}) == {"pin": "***", "port": 5432}


@pytest.mark.parametrize(
    ("name", "hint"), [("pg_loca", r"\(did you mean 'pg_local'\?\)"), ("xyz", r"\(there are pg_local, vault\)")]
)
async def test_an_unknown_name_is_told_with_the_names_there_are(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / "c.yaml").write_text("pg_local: {password: hush}\n")
    with pytest.raises(CredentialError, match=f"no credential {name!r} {hint}: add it to") as told:
        await credentials(tmp_path / "c.yaml", VAULT={"token": "hush"}).resolve(name)
    assert "hush" not in str(told.value)
