"""Credentials in plain text are reported at their exact place, and nothing that only looks like one.

What has a vendor's prefix is put together here, so that no scanner of repositories takes it for real.
"""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import render
from tests.compiler.marked import HEAD, marked_parts, playbook_of

VENDORS = {
    "AKIA": "IOSFODNN7EXAMPLE",
    "ghp_": "a1B2" * 9,
    "github_pat_": "11ABCDEFG0" + "a1B2_" * 14,
    "glpat-": "aB3dE" * 4,
    "xoxb-": "123456789012-abcDEF",
    "https://hooks.slack.com/": "services/T00000000/B00000000/abcdEFGHijklMNOPqrst",
    "https://discord.com/api/": "webhooks/123456789012345678/" + "aB3d" * 15,
    "123456789:": "AAE" + "aB3d" * 8,
    "AIza": "Sy" + "aB3dE" * 6 + "abc",
    "ya29.": "aB3_" * 12,
    "sk-proj-": "aB3" * 16,
    "sk-ant-api03-": "aB3" * 30,
    "sk_live_": "a1B2" * 6,
    "whsec_": "a1B2" * 6,
    "SG.": "aB3d" * 5 + "ab." + "aB3d" * 10 + "abc",
    "SK": "0a1b" * 8,
    "npm_": "aB3d" * 9,
    "pypi-": "AgEIcHlwaS5vcmc" + "aB3d" * 14,
    "hf_": "aBcD" * 8 + "ab",
    "dop_v1_": "0a1b" * 16,
    "hvs.": "aB3d" * 6,
    "shpat_": "0a1b" * 8,
    "dapi": "0a1b" * 8,
    "ATATT3": "xFfGF0" + "aB3d" * 20,
    "eyJ": "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3",
}


@pytest.mark.parametrize("prefix", VENDORS)
def test_tokens_of_vendors_are_recognized(prefix: str) -> None:
    secret = prefix + VENDORS[prefix]
    assert_found(f"a: 'see {secret}, please'", secret.removeprefix("https://"))
    assert_found(f"a: {prefix}of_something", None)


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("password: hunter2", "hunter2"),
        ("password: 123456", "123456"),
        ("DB_PASSWORD: hunter2", "hunter2"),
        ("PGPASSWORD: hunter2", "hunter2"),
        ("dbPassword: hunter2", "hunter2"),
        ('"pa\\x73sword": hunter2', "hunter2"),
        ("pa\u017fsword: hunter2", "hunter2"),
        ("db_pass: hunter2", "hunter2"),
        ("api-key: k3y-a1", "k3y-a1"),
        ("client_secret: [a1b2]", "a1b2"),
        ("accessToken: a8f5f167f44f4964", "a8f5f167f44f4964"),
        ("encryption_key: a8f5f167f44f4964", "a8f5f167f44f4964"),
        ("db_password: correct-horse-battery", "correct-horse-battery"),
        ("aws_secret_access_key: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("Authorization: 'Bearer a8f5f167f44f4964e6c99'", "a8f5f167f44f4964e6c99"),
        ("Authorization: 'Basic dXNlcjpwYXNzdzByZA=='", "dXNlcjpwYXNzdzByZA=="),
        ("Authorization: 'token a94a8fe5ccb19ba61c4c'", "a94a8fe5ccb19ba61c4c"),
        ("X-API-Key: a8f5f167f44f4964", "a8f5f167f44f4964"),
        ("url: 'postgres://me:hunter2@db/x'", "hunter2"),
        ("url: 'redis://:hunter2@db'", "hunter2"),
        ("url: 'https://a/b?x=1&api_key=a8f5f167f44f4964'", "a8f5f167f44f4964"),
        ("dsn: 'host=db user=me password=hunter2 dbname=x'", "hunter2"),
        ("dsn: 'Server=db;Uid=me;Pwd=hunter2;'", "hunter2"),
        ("""text: '{"user": "me", "password": "hunter2"}'""", "hunter2"),
        ("password: '{{ payload.password | default(\"hunter2\") }}'", "hunter2"),
        ("a: '-----BEGIN RSA PRIVATE KEY-----\\nMIIE'", "-----BEGIN RSA PRIVATE KEY-----\\nMIIE"),
        ("a: '-----BEGIN PRIVATE KEY-----'", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_a_secret_is_reported_at_its_place(value: str, secret: str) -> None:
    assert_found(value, secret)


@pytest.mark.parametrize(
    "value",
    [
        "password: '{{ payload.password }}'",
        "password: ''",
        "password: null",
        "password: <your password>",
        "password: ${DB_PASSWORD}",
        "password: $DB_PASSWORD",
        "password: changeme",
        "password: '***'",
        "password: YOUR_PASSWORD",
        "password_file: /run/secrets/x1",
        "password_hash: '$2b$12$abcdefghijklmnopqrstuv'",
        "pg_password_secret: postgres-dev-password",
        "pg_password_secret: '{{ payload.x | default(\"postgres-password\") }}'",
        "token: the token of the session",
        "token: projects/1/secrets/x/versions/latest",
        "token_url: 'http://a/token1'",
        "tokens: 5",
        "max_tokens: '4096'",
        "token_type: Bearer",
        "secret_name: projects/1/secrets/a",
        "api_key: my-vault/api-key",
        "api_key_header: X-API-Key-1",
        "passing: ok1",
        "auth: pg_prod1",
        "a: task-00112233445566778899aabbccddeeff0011",
        "a: da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "a: 550e8400-e29b-41d4-a716-446655440000",
        "a: 'image@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'",
        "a: aGVsbG8gd29ybGQgdGhpcyBpcyBhIGxvbmcgYmFzZTY0IHN0cmluZzE=",
        "a: 'sk-this-is-a-rather-long-name-of-something'",
        "a: AKIA is a prefix",
        "a: 'Bearer {{ payload.t }}'",
        "a: 'Bearer YOUR_TOKEN'",
        "url: 'postgres://me:{{ payload.p }}@db/x'",
        "url: 'postgres://me:${P}@db/x'",
        "url: 'postgres://USER:PASSWORD@HOST/x'",
        "url: 'https://a/b?api_key={{ payload.k }}'",
        "url: 'https://a/b?api_key=YOUR_KEY_GOES_HERE'",
        "sql: 'select password from users where password = :p'",
        "dsn: 'host=db password={{ payload.p }}'",
        "dsn: 'host=db password=$PASSWORD'",
    ],
)
def test_values_that_only_look_like_secrets_are_not_reported(value: str) -> None:
    assert_found(value, None)


def assert_found(value: str, secret: str | None) -> None:
    text = playbook_of("{kind: noop}", head=f"workload:\n  {value}\n")
    assert marked_parts(text, Code.CREDENTIAL_IN_TEXT) == ([secret] if secret else [])


def in_tool(kind: str, key: str, *lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"{HEAD}workflow:\n  - step: start\n    tool:\n      kind: {kind}\n      auth: pg\n      {key}: |\n{body}"


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("password = 'hunter2'", "hunter2"),
        ("connect(user='me', password='hunter2')", "hunter2"),
        ('settings = {"api_key": "a8f5f167f44f"}', "a8f5f167f44f"),
        ("os.environ['TOKEN'] = 'a8f5f167f44f'", "a8f5f167f44f"),
        ("password = os.environ['PASSWORD']", None),
        ("password = args['password1']", None),
        ("def main(password='', token=None): pass", None),
        ("if password == 'x1x1': raise ValueError('no password')", None),
        ("print('password:', 'ok12')", None),
        ("token = 'Bearer ' + found", None),
        ("connect(password=pw1)", None),
    ],
)
def test_python_code_assigns_secrets(line: str, secret: str | None) -> None:
    text = in_tool("python", "code", "import os", line)
    assert marked_parts(text, Code.CREDENTIAL_IN_TEXT) == ([secret] if secret else [])


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("CREATE ROLE me LOGIN PASSWORD 'hunter2';", "hunter2"),
        ("CREATE USER me IDENTIFIED BY 'hunter2';", "hunter2"),
        ("ATTACH 'host=db user=me password=hunter2' AS pg;", "hunter2"),
        ("ALTER ROLE me PASSWORD '{{ payload.password }}';", None),
        ("SELECT * FROM users WHERE password = crypt($1, password)", None),
    ],
)
def test_statements_have_secrets(line: str, secret: str | None) -> None:
    text = in_tool("postgres", "command", "select 1;", line)
    assert marked_parts(text, Code.CREDENTIAL_IN_TEXT) == ([secret] if secret else [])


def test_a_key_of_several_lines_is_masked_as_a_whole() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    text = in_tool("python", "code", f"key = '''{begin}", "MIIE {{ x }}", f"{end}'''")
    assert marked_parts(text, Code.CREDENTIAL_IN_TEXT) == [f"{begin}\n        MIIE {{{{ x }}}}"]


def test_a_secret_is_shown_in_no_finding() -> None:
    result = compile_text(playbook_of("{kind: noop, message: '{{ a b }} password=hunter2'}"), "p.yaml")
    hidden_spans = [diagnostic.span for diagnostic in result.diagnostics if diagnostic.code is Code.CREDENTIAL_IN_TEXT]
    diagnostics = [render(diagnostic, result.source, hidden_spans) for diagnostic in result.diagnostics]
    assert len(diagnostics) == 2
    assert all("hunter2" not in text and "password=*******" in text for text in diagnostics)
