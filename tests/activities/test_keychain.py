"""Values of secrets in the places of their references, from each keeper: real servers, files, the environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.errors import ConfigError, CredentialError, SecretError, ToolError
from noetl_activities.secrets.tool import TOOL
from noetl_compiler.secret_references import SecretReference, format_reference, references_in
from tests.activities.conftest import Context, request

KEY = "of the run"

SECRETS = {
    "secret/data/billing": {"token": "vault-token-1234", "port": 8443, "deep": {"list": ["first-part", "b"]}},
    "secret/data/one": {"value": "only-value-1234"},
    "kv/team/data/mail": {"password": "team-password-1"},
}


class Keepers(BaseHTTPRequestHandler):
    """Vault's key-value engine of version 2, its login by role, and an endpoint for tokens."""

    requests: list[str]
    fails: int
    expires_in: Any

    def do_GET(self) -> None:
        self.requests.append(self.path)
        path = self.path.removeprefix("/v1/")
        if self.headers.get("X-Vault-Token") not in ("root", "by-role"):
            self.answer(403, {"errors": ["permission denied"]})
        elif type(self).fails:
            type(self).fails -= 1
            self.answer(503, {"errors": ["sealed"]})
        elif path in SECRETS:
            self.answer(200, {"data": {"data": SECRETS[path], "metadata": {"version": 2}}})
        else:
            self.answer(404, {"errors": []})

    def do_POST(self) -> None:
        self.requests.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/v1/auth/approle/login":
            login = json.loads(body)
            good = login == {"role_id": "role", "secret_id": "id-of-the-secret"}
            self.answer(
                200 if good else 400, {"auth": {"client_token": "by-role", "lease_duration": 60}} if good else {}
            )
        else:
            form = {name: values[0] for name, values in parse_qs(body).items()}
            good = form.get("client_secret") == "vault-token-1234"
            token = {"access_token": f"fetched-token-{len(self.requests)}", "expires_in": self.expires_in}
            self.answer(200 if good else 401, token if good else {"error": f"bad {form.get('client_secret')}"})

    def answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Says nothing."""


class ServedKeepers(Keepers):
    """Of one test."""


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    ServedKeepers.requests, ServedKeepers.fails, ServedKeepers.expires_in = [], 0, 3600
    with ThreadingHTTPServer(("127.0.0.1", 0), ServedKeepers) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        monkeypatch.setenv("NOETL_HTTP_ALLOW", "127.0.0.1")
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def credentials(file: Path | None = None, /, **environment: Any) -> Credentials:
    variables = {name: text if isinstance(text, str) else json.dumps(text) for name, text in environment.items()}
    return Credentials(CredentialSource(file, variables), KEY)


def to(kind: str, *path: str | int, name: str = "billing", form: Any = "value", **config: Any) -> str:
    return format_reference(SecretReference(name, kind, config, path, form), KEY)


async def read(credentials: Credentials, reference: str) -> Any:
    return await credentials.with_secrets(reference)


READABLE = {"type": "secret", "token": "t-0123456789", "value": "v-0123456789", "port": 5432, "flag": True}


# ---- places -----------------------------------------------------------------------------------------------------


async def test_a_value_replaces_its_reference() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE)
    token, port = to("env", "token", name="a"), to("credential", "port", credential="a")
    values = {"a": [f"Bearer {token}", token, 7], "b": {"port": port, "text": f"{port}/{token}"}, "c": None}
    assert await known_credentials.with_secrets(values) == {
        "a": ["Bearer t-0123456789", "t-0123456789", 7],
        "b": {"port": 5432, "text": "5432/t-0123456789"},
        "c": None,
    }
    assert known_credentials.mask_secrets("x t-0123456789 y") == "x *** y"


async def test_a_value_is_json_where_that_is_asked_for() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A={"type": "secret", "key": {"private": 'a"b\n'}})
    reference = to("env", "key", name="a", form="json")
    assert await read(known_credentials, reference) == '{"private": "a\\"b\\n"}'
    assert await read(known_credentials, f'{{"k": {reference}}}') == '{"k": {"private": "a\\"b\\n"}}'


async def test_a_reference_of_another_run_stays_text() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE)
    other = format_reference(SecretReference("a", "env", {}, ("token",)), "another key")
    assert await read(known_credentials, f"x {other}") == f"x {other}"


async def test_a_call_without_a_key_has_no_references() -> None:
    credentials = Credentials(CredentialSource(environment={}))
    assert await credentials.with_secrets({"a": to("env", "token")}) == {"a": to("env", "token")}
    with pytest.raises(ConfigError):
        await credentials.reference("a", "env", {})


async def test_a_value_is_not_a_reference() -> None:
    inner = to("env", "value", name="a")
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE, NOETL_CREDENTIAL_B={"type": "secret", "value": inner})
    assert await read(known_credentials, to("env", "value", name="b")) == inner


@pytest.mark.parametrize("value", ["it's", 'a"b', "a\\b", "a; drop", "a--b", "a/*b", "a\nb", "$$"])
async def test_a_value_that_could_end_a_text_of_sql_is_refused(value: str) -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A={"type": "secret", "value": value})
    reference = to("env", "value", name="a")
    with pytest.raises(CredentialError, match="SQL cannot hold: bind it with params") as error:
        await known_credentials.with_secrets({"query": f"select '{reference}'"}, "postgres")
    assert value not in str(error.value)
    config = {"query": "select $1", "params": [reference]}
    assert await known_credentials.with_secrets(config, "postgres") == {"query": "select $1", "params": [value]}


async def test_a_plain_value_may_be_inserted_into_sql() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A={"type": "secret", "value": "GOOG1E/x+y=_-"})
    config = {"commands": [f"create secret (secret '{to('env', 'value', name='a')}')"]}
    assert await known_credentials.with_secrets(config, "duckdb") == {
        "commands": ["create secret (secret 'GOOG1E/x+y=_-')"]
    }


async def test_python_code_keeps_references() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE)
    token = to("env", "token", name="a")
    config = {"code": f"result = '{token}'", "env": {"TOKEN": token}}
    assert await known_credentials.with_secrets(config, "python") == {**config, "env": {"TOKEN": "t-0123456789"}}


# ---- auth -------------------------------------------------------------------------------------------------------


async def test_auth_may_be_a_secret_as_a_whole_or_in_parts() -> None:
    bearer = {"type": "bearer", "token": "t-0123456789"}
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE, NOETL_CREDENTIAL_LOGIN=bearer)
    assert await known_credentials.resolve(to("credential", credential="login")) == bearer
    part = {"type": "bearer", "token": to("env", "token", name="a")}
    assert await known_credentials.resolve(part) == bearer
    assert await known_credentials.resolve({"type": "api_key", "key": to("env", "value", name="a")}) == {
        "type": "api_key",
        "key": "v-0123456789",
    }
    assert known_credentials.mask_secrets(["t-0123456789", "v-0123456789"]) == ["***", "***"]


async def test_auth_is_no_single_value() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE)
    with pytest.raises(CredentialError, match=r'auth is the single value "a.token": write auth: \{type: bearer, token'):
        await known_credentials.resolve(to("env", "token", name="a"))


@pytest.mark.parametrize(
    "fields", [{"type": "postgres", "db_password": "p-0123456789"}, {"db_password": "p-0123456789"}]
)
async def test_parts_of_a_login_cannot_be_read(fields: Mapping[str, str]) -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_PG=fields)
    for entry in (
        to("credential", "db_password", credential="pg"),
        to("credential", credential="pg"),
        to("secret_manager", "x", provider="env", map={"x": "pg"}),
        to("secret_manager", "db_password", name="pg", provider="gcp"),
    ):
        with pytest.raises(CredentialError, match="is not of type secret, so templates cannot read its parts"):
            await read(known_credentials, entry)
    assert await known_credentials.resolve(to("credential", credential="pg")) == fields


# ---- keepers ----------------------------------------------------------------------------------------------------


async def test_credentials_of_the_worker(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("auth0: {type: secret, client_secret: c-0123456789}\n")
    known_credentials = credentials(file, NOETL_CREDENTIAL_TEST_SECRET={"type": "secret", "anything": "s-0123456789"})
    assert await read(known_credentials, to("credential", "client_secret", credential="auth0")) == "c-0123456789"
    mapping = to("secret_manager", "key", provider="env", map={"key": "TEST_SECRET"})
    assert await read(known_credentials, mapping) == "s-0123456789"


async def test_a_static_secret_is_what_the_playbook_says() -> None:
    assert await read(credentials(), to("static", "user", user="me", scope="local")) == "me"
    assert await read(credentials(), to("static", "user", data={"user": "you"})) == "you"


async def test_secrets_are_read_from_vault(keepers: str) -> None:
    known_credentials = credentials(NOETL_VAULT_ADDRESS=keepers, NOETL_VAULT_TOKEN="root")
    assert await read(known_credentials, to("vault", "token", path="secret/billing")) == "vault-token-1234"
    assert await read(known_credentials, to("vault", "deep", "list", 0, path="secret/data/billing")) == "first-part"
    mapping = {"a": "secret/billing#port", "b": "secret/one", "token": "secret/billing"}
    assert [
        await read(known_credentials, to("secret_manager", name, provider="vault", map=mapping)) for name in mapping
    ] == [
        8443,
        "only-value-1234",
        "vault-token-1234",
    ]
    assert await read(known_credentials, to("openbao", "password", path="kv/team/data/mail")) == "team-password-1"
    assert len(ServedKeepers.requests) == 3, "a secret is read once"
    assert known_credentials.mask_secrets("vault-token-1234 first-part team-password-1") == "*** *** ***"


async def test_vault_by_role(keepers: str) -> None:
    role = {"NOETL_VAULT_ROLE_ID": "role", "NOETL_VAULT_SECRET_ID": "id-of-the-secret"}
    known_credentials = credentials(NOETL_VAULT_ADDRESS=keepers, **role)
    for path in ("secret/billing", "secret/one"):
        await read(known_credentials, to("vault", path=path))
    assert ServedKeepers.requests == ["/v1/auth/approle/login", "/v1/secret/data/billing", "/v1/secret/data/one"]


@pytest.mark.parametrize(
    ("environment", "path", "message"),
    [
        ({"NOETL_VAULT_ADDRESS": ""}, "secret/billing", "the worker has no Vault: set NOETL_VAULT_ADDRESS"),
        ({"NOETL_VAULT_ADDRESS": "http://10.0.0.1:8200"}, "secret/billing", "must begin with https://"),
        ({"NOETL_VAULT_TOKEN": ""}, "secret/billing", "no login for Vault"),
        ({"NOETL_VAULT_TOKEN": "other"}, "secret/billing", "status 403: the policy of the worker's token"),
        ({}, "secret/nothing", "status 404: there is no such secret"),
        ({}, "secret", "is not the path of a secret"),
        ({}, "secret/../sys/seal", "is not the path of a secret"),
        ({}, "secret/a?version=1", "is not the path of a secret"),
    ],
)
async def test_a_refusal_of_vault_is_an_error(
    keepers: str, environment: dict[str, str], path: str, message: str
) -> None:
    environment_ = {"NOETL_VAULT_ADDRESS": keepers, "NOETL_VAULT_TOKEN": "root", **environment}
    with pytest.raises(ToolError, match=message):
        await read(credentials(**environment_), to("vault", "token", path=path))


async def test_a_failed_request_to_vault_is_repeated(keepers: str) -> None:
    credentials_before, reference = (
        credentials(NOETL_VAULT_ADDRESS=keepers, NOETL_VAULT_TOKEN="root"),
        to("vault", path="secret/one"),
    )
    ServedKeepers.fails = 1
    with pytest.raises(SecretError, match="with status 503") as error:
        await read(credentials_before, reference)
    assert error.value.outcome.error is not None
    assert error.value.outcome.error.retryable
    assert await read(credentials_before, reference) == {"value": "only-value-1234"}


async def test_an_unavailable_vault_is_retryable() -> None:
    known_credentials = credentials(NOETL_VAULT_ADDRESS="http://127.0.0.1:1", NOETL_VAULT_TOKEN="root")
    with pytest.raises(SecretError, match=r"Vault at http://127.0.0.1:1 does not respond") as error:
        await read(known_credentials, to("vault", path="secret/one"))
    assert error.value.outcome.error is not None
    assert (error.value.outcome.error.kind, error.value.outcome.error.retryable) == ("connection", True)


def token_of(keepers: str, *path: str) -> str:
    secret = to("vault", "token", path="secret/billing")
    data = {"grant_type": "client_credentials", "client_id": "me", "client_secret": secret}
    return to("oauth2", *path, name="api", endpoint=f"{keepers}/token", data=data)


async def test_a_token_is_fetched_once_until_it_expires(keepers: str) -> None:
    source = CredentialSource(environment={"NOETL_VAULT_ADDRESS": keepers, "NOETL_VAULT_TOKEN": "root"})
    reference = token_of(keepers, "access_token")
    for _call in range(2):
        credentials = Credentials(source, KEY)
        assert await credentials.with_secrets(f"Bearer {reference}") == "Bearer fetched-token-2"
        assert credentials.mask_secrets("fetched-token-2 vault-token-1234") == "*** ***"
    assert ServedKeepers.requests == ["/v1/secret/data/billing", "/token"]


@pytest.mark.parametrize("expires_in", [0, 20, None, "soon"])
async def test_a_token_that_expires_at_once_is_not_kept(keepers: str, expires_in: Any) -> None:
    ServedKeepers.expires_in = expires_in
    known_credentials = credentials(NOETL_VAULT_ADDRESS=keepers, NOETL_VAULT_TOKEN="root")
    assert await read(known_credentials, token_of(keepers, "access_token")) == "fetched-token-2"
    assert await read(known_credentials, token_of(keepers, "access_token")) == "fetched-token-3"


async def test_a_token_that_is_refused(keepers: str) -> None:
    known_credentials = credentials()
    bad = to("oauth2", "access_token", name="api", endpoint=f"{keepers}/token", data={"client_secret": "wrong-secret"})
    with pytest.raises(SecretError, match=r"the token 'api' cannot be fetched: POST .* returned 401"):
        await read(known_credentials, bad)


async def test_a_token_is_fetched_within_the_guards(monkeypatch: pytest.MonkeyPatch, keepers: str) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "")
    metadata = to("oauth2", "access_token", endpoint="http://169.254.169.254/token", data={"client_secret": "x"})
    with pytest.raises(ToolError):
        await read(credentials(), metadata)


@pytest.mark.parametrize(("kind", "config"), [("secret_manager", {"provider": "gcp"}), ("google_id_token", {})])
async def test_a_secret_that_workers_cannot_read(kind: str, config: dict[str, Any]) -> None:
    manager = config.get("provider", kind)
    with pytest.raises(CredentialError, match=f"'billing' is in '{manager}', which workers cannot read: register a"):
        await read(credentials(), to(kind, "api_key", **config))
    known_credentials = credentials(NOETL_CREDENTIAL_BILLING={"type": "secret", "api_key": "k-0123456789"})
    assert await read(known_credentials, to(kind, "api_key", **config)) == "k-0123456789"


async def test_a_missing_field_of_a_secret_names_the_known_fields() -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A=READABLE)
    with pytest.raises(
        CredentialError, match="the secret 'a' has no 'tokn': it has type, token, value, port, flag"
    ) as no:
        await read(known_credentials, to("env", "tokn", name="a"))
    assert "0123456789" not in str(no.value)


@pytest.mark.parametrize(
    "path", [("token", 0), ("token", "0"), ("port", "x"), ("list", "x"), ("list", 2), ("list", "0", "a")]
)
async def test_a_missing_part_of_a_secret_is_an_error(path: tuple[str | int, ...]) -> None:
    known_credentials = credentials(NOETL_CREDENTIAL_A={**READABLE, "list": ["a", "b"]})
    with pytest.raises(CredentialError, match=r"^the secret 'a\.\w+(\.0)?' has no '\w+'$"):
        await read(known_credentials, to("env", *path, name="a"))
    assert await read(known_credentials, to("env", "list", "1", name="a")) == "b"


# ---- the secrets tool -------------------------------------------------------------------------------------------


async def test_the_secrets_tool_yields_a_reference() -> None:
    context = Context()
    source = CredentialSource(environment={"NOETL_CREDENTIAL_TEST_SECRET": json.dumps(READABLE)})
    context.credentials = Credentials(source, KEY)
    outcome = await TOOL.run(request("secrets", provider="env", name="TEST_SECRET"), context)
    reference = outcome.result["secret_value"]
    assert outcome.result["value"] == reference
    assert "0123456789" not in reference
    assert [label.reference.label for label in references_in(reference, KEY)] == ["TEST_SECRET.value"]
    assert await Credentials(source, KEY).with_secrets(f"a {reference}") == "a v-0123456789"


@pytest.mark.parametrize("provider", ["env", "google", "vault"])
async def test_the_secrets_tool_fails_where_there_is_no_secret(provider: str) -> None:
    context = Context()
    context.credentials = Credentials(CredentialSource(environment={}), KEY)
    with pytest.raises(ToolError):
        await TOOL.run(request("secrets", provider=provider, secret_name="mount/nothing"), context)
    with pytest.raises(ConfigError, match="needs a secret_name"):
        await TOOL.run(request("secrets", provider=provider), context)
