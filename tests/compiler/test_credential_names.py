"""Which credentials a playbook names, in the tree and for programs."""

from __future__ import annotations

import json

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.credential_names import credential_names, credentials_json
from noetl_compiler.preview import tree
from tests.compiler.marked import playbook_of, steps

WORKLOAD = "workload: {pg: pg_local, deep: {pg: '{{ workload.pg }}'}, of_tenant: 'pg_{{ payload.tenant }}'}\n"
SQL = "kind: postgres, query: select 1"


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("{kind: noop}", []),
        (f"{{{SQL}, auth: pg_one}}", ["pg_one"]),
        (f"{{{SQL}, auth: {{type: postgres, credential: pg_one}}}}", ["pg_one"]),
        (f"{{{SQL}, auth: {{pg: {{type: postgres, key: pg_one}}}}}}", ["pg_one"]),
        ("{kind: duckdb, query: q, auth: {a: {type: gcs, key: b}, c: {key: d}}}", ["b", "d"]),
        (f"[{{{SQL}, auth: b}}, {{{SQL}, auth: a}}, {{{SQL}, auth: b}}]", ["a", "b"]),
        ("{kind: noop, sink: {kind: postgres, table: t, auth: pg_sink}}", ["pg_sink"]),
        ("{kind: http, url: u, auth: {type: bearer, token: '{{ keychain.a.token }}'}}", []),
        (f"{{{SQL}, auth: '{{{{ workload.pg }}}}'}}", ["workload.pg (default pg_local)"]),
        (f"{{{SQL}, auth: '{{{{ pg }}}}'}}", ["pg (default pg_local)"]),
        (f"{{{SQL}, auth: '{{{{ workload.deep.pg }}}}'}}", ["workload.deep.pg (default pg_local)"]),
        (f"{{{SQL}, auth: '{{{{ workload.of_tenant }}}}'}}", ["workload.of_tenant"]),
        (f"{{{SQL}, auth: {{key: 'pg_{{{{ ctx.name }}}}'}}}}", ["pg_{{ ctx.name }}"]),
        (
            "{kind: transfer, source: {type: postgres, auth: a, query: q}, target: {type: postgres, auth: {key: b}}}",
            ["a", "b"],
        ),
        ("{kind: transfer, auth: a, source: {type: http, url: u}, target: {type: postgres, table: t}}", ["a"]),
        (
            "{kind: transfer, source: {type: http, url: u, auth: '{{ workload.pg }}'}, target: {type: http, url: u}}",
            ["workload.pg (default pg_local)"],
        ),
        (f"{{{SQL}, auth: sk-{'Ab1' * 12}}}", []),
        ("{kind: python, script: {uri: 'gs://b/a.py', source: {type: gcs, auth: gcs_code}}}", ["gcs_code"]),
        ("{kind: python, script: {uri: 'http://h/a.py', source: {type: http, credential: code}}}", ["code"]),
        (
            "{kind: python, script: {uri: 's3://b/a.py', source: {type: s3, auth: '{{ workload.pg }}'}}}",
            ["workload.pg (default pg_local)"],
        ),
        ("{kind: python, script: {uri: a.py, source: {type: file, auth: unused}}}", []),
        ("{kind: python, script: {uri: 'http://h/a.py'}}", []),
    ],
)
def test_the_credentials_that_a_tool_names(tool: str, names: list[str]) -> None:
    graph = compile_or_raise(playbook_of(tool, head=WORKLOAD))
    assert [str(name) for name in credential_names(graph)] == names
    line = f"credentials: {', '.join(names)}"
    assert (line in tree(graph).splitlines()) is bool(names)


def test_a_cursor_names_its_credential() -> None:
    loop = "{cursor: {kind: postgres, auth: pg_queue, claim: select 1}, iterator: row}"
    graph = compile_or_raise(steps(f"{{step: start, loop: {loop}, tool: {{kind: noop}}}}"))
    assert [str(name) for name in credential_names(graph)] == ["pg_queue"]


def test_a_program_gets_the_name_and_the_template() -> None:
    auths = ("a", "'{{ workload.pg }}'", "'{{ workload.of_tenant }}'")
    tool = f"[{', '.join(f'{{{SQL}, auth: {auth}}}' for auth in auths)}]"
    credentials = json.loads(credentials_json(compile_or_raise(playbook_of(tool, head=WORKLOAD))))
    assert credentials == [
        {"name": "a", "template": None},
        {"name": "pg_local", "template": "workload.pg"},
        {"name": None, "template": "workload.of_tenant"},
    ]


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("{name: a, kind: credential, credential: auth0}", ["auth0"]),
        ("{name: a, kind: credential, credential: '{{ workload.pg }}'}", ["workload.pg (default pg_local)"]),
        ("{name: a, kind: env}", ["a"]),
        (
            "{name: a, kind: secret_manager, provider: env, map: {x: one, y: '{{ pg }}'}}",
            ["one", "pg (default pg_local)"],
        ),
        ("{name: a, kind: secret_manager, provider: gcp, map: {x: projects/p}}", ["a"]),
        ("{name: a, kind: google_id_token}", ["a"]),
        ("{name: a, kind: vault, path: secret/a}", []),
        ("{name: a, kind: oauth2, endpoint: http://a}", []),
        ("{name: a, kind: static, x: y}", []),
    ],
)
def test_the_credentials_that_the_keychain_needs(entry: str, names: list[str]) -> None:
    auth = "{kind: http, url: u, auth: '{{ keychain.a }}'}"
    graph = compile_or_raise(playbook_of(auth, head=f"{WORKLOAD}keychain: [{entry}]\n"))
    assert [str(name) for name in credential_names(graph)] == names


def test_the_entries_of_the_keychain_are_shown() -> None:
    keychain = "keychain: [{name: a, kind: secret_manager, provider: gcp}, {name: b, kind: vault, path: secret/b}]\n"
    lines = tree(compile_or_raise(playbook_of("{kind: noop}", head=keychain))).splitlines()
    assert lines[3:5] == ["credentials: a", "keychain: a (gcp), b (vault)"]


@pytest.mark.parametrize(("provider", "names"), [("env", ["TEST"]), ("google", ["TEST"]), ("vault", [])])
def test_the_credentials_that_the_secrets_tool_needs(provider: str, names: list[str]) -> None:
    graph = compile_or_raise(playbook_of(f"{{kind: secrets, provider: {provider}, secret_name: TEST}}"))
    assert [str(name) for name in credential_names(graph)] == names
