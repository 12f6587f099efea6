"""Secrets of the keychain in the machine: references that go where the templates put them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.secret_references import MARK, SecretReference, references_in
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.playbook import PlaybookMachine

from .driver import SECRETS_KEY, Driver, Run, run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
KEYCHAIN = """\
workload: {place: secret/billing, host: "http://localhost"}
keychain:
  - {name: billing, kind: vault, path: "{{ place }}"}
  - {name: id, kind: static, user: me}
  - name: token
    kind: oauth2
    endpoint: "{{ workload.host }}/token"
    data: {client_id: "{{ id.user }}", client_secret: "{{ keychain.billing.secret }}"}
"""


def run(steps: str, **payload: Any) -> Run:
    return run_text(f"{HEAD}{KEYCHAIN}workflow:\n{steps}", lambda _call: {"n": 1}, payload)


def found_in(value: Any) -> list[SecretReference]:
    text = value if isinstance(value, str) else json.dumps(value)
    return [reference.reference for reference in references_in(text, SECRETS_KEY)]


def one_call(steps: str, **payload: Any) -> ToolCall:
    done = run(steps, **payload)
    assert done.finish.status == "completed", done.finish
    [call] = [call for call in done.calls if call.task != "end"]
    return call


BILLING = SecretReference("billing", "vault", {"path": "secret/billing"}, ("key",))


@pytest.mark.parametrize("name", ["keychain.billing", "billing", "keychain['billing']"])
def test_a_template_yields_a_reference(name: str) -> None:
    call = one_call(f"""- step: start
  tool: {{kind: http, url: "http://a", headers: {{Authorization: "Bearer {{{{ {name}.key }}}}"}}}}""")
    assert call.config["headers"]["Authorization"].startswith("Bearer " + MARK)
    assert found_in(call.config) == [BILLING]
    assert call.secrets_key == SECRETS_KEY


def test_an_entry_is_rendered_with_the_workload_of_the_run() -> None:
    call = one_call('- {step: start, tool: {kind: noop, result: "{{ billing.key }}"}}', place="secret/other")
    [reference] = found_in(call.config)
    assert reference.config == {"path": "secret/other"}


def test_an_entry_has_references_to_others() -> None:
    call = one_call('- {step: start, tool: {kind: noop, result: "{{ keychain.token.access_token }}"}}')
    [reference] = found_in(call.config)
    assert reference.config["endpoint"] == "http://localhost/token"
    assert [entry.label for entry in found_in(reference.config)] == ["id.user", "billing.secret"]


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ('{kind: noop, input: {a: "{{ billing.key }}"}}', "input"),
        ('{kind: http, url: u, auth: "{{ keychain.billing.key }}"}', "auth"),
        ('{kind: http, url: u, auth: {type: bearer, token: "{{ billing.key }}"}}', "auth"),
    ],
)
def test_each_position_of_a_call(tool: str, field: str) -> None:
    call = one_call(f"- step: start\n  tool: {tool}")
    assert found_in(getattr(call, field)) == [BILLING]


def test_set_passes_on_the_reference() -> None:
    done = run("""- step: start
  tool: {kind: noop}
  set: {ctx.held: "Bearer {{ keychain.billing.key }}"}
  next: {arcs: [{step: ask, set: {ctx.passed: "{{ billing.key }}"}}]}
- step: ask
  tool: {kind: noop, input: {held: "{{ ctx.held }}", passed: "{{ ctx.passed }}"}}""")
    call = next(call for call in done.calls if call.step == "ask")
    assert found_in(call.input["held"]) == found_in(call.input["passed"]) == [BILLING]


def test_the_items_of_a_loop_have_references() -> None:
    done = run("""- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
  tool: {kind: noop, input: {n: "{{ n }}", a: "{{ keychain.billing.key }}", b: "{{ token.access_token }}"}}""")
    calls = [call for call in done.calls if call.step == "start"]
    assert [found_in(call.input["a"]) for call in calls] == [[BILLING], [BILLING]]
    assert {call.secrets_key for call in calls} == {SECRETS_KEY}


@pytest.mark.parametrize(
    "auth", ["billing", "{source: keychain, key: billing}", "{type: bearer, source: keychain, name: billing}"]
)
def test_auth_may_name_an_entry(auth: str) -> None:
    call = one_call(f"- step: start\n  tool: {{kind: http, url: u, auth: {auth}}}")
    assert found_in(call.auth) == [msgspec.structs.replace(BILLING, path=())]


def test_a_name_bound_by_the_playbook_hides_a_keychain_entry() -> None:
    call = one_call('- {step: start, tool: {kind: noop, input: {billing: mine, a: "{{ billing }}"}}}', billing="w")
    assert call.input["a"] == "w"


def test_an_error_in_a_keychain_entry_fails_the_step_that_reads_it() -> None:
    text = f"""{HEAD}keychain: [{{name: a, kind: vault, path: "{{{{ nowhere }}}}"}}]
workflow:
- {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: then}}]}}}}
- {{step: then, tool: {{kind: noop, result: "{{{{ keychain.a.b }}}}"}}}}"""
    done = run_text(text, lambda _call: None)
    assert done.finish.status == "failed"
    assert done.finish.failures.cause is not None
    assert '"nowhere" is undefined' in done.finish.failures.cause.message


def test_entries_that_need_each_other_are_an_error() -> None:
    text = f"""{HEAD}keychain:
- {{name: a, kind: static, x: "{{{{ keychain.b.x }}}}"}}
- {{name: b, kind: static, x: "{{{{ keychain.a.x }}}}"}}
workflow:
- {{step: start, tool: {{kind: noop, result: "{{{{ keychain.a.x }}}}"}}}}"""
    cause = run_text(text, lambda _call: None).finish.failures.cause
    assert cause is not None
    assert "entries of the keychain depend on each other: a -> b -> a" in cause.message


def test_without_a_key_there_are_no_secrets() -> None:
    graph = compile_or_raise(
        f'{HEAD}{KEYCHAIN}workflow:\n- {{step: start, tool: {{kind: noop, result: "{{{{ billing.a }}}}"}}}}'
    )
    finish = Driver(lambda _call: None).drive(PlaybookMachine(graph, execution_id=1))
    assert finish.failures.cause is not None
    assert '"billing" is undefined' in finish.failures.cause.message


def test_a_playbook_without_secrets_has_no_key() -> None:
    done = run_text(f"{HEAD}workflow:\n- {{step: start, tool: {{kind: noop}}}}", lambda _call: None)
    assert {call.secrets_key for call in done.calls} == {""}


def test_a_reference_is_the_same_after_a_snapshot() -> None:
    steps = '- {step: start, tool: {kind: noop, result: "{{ billing.key }}"}}'
    graph = compile_or_raise(f"{HEAD}{KEYCHAIN}workflow:\n{steps}")
    calls: list[ToolCall] = []
    for _ in range(2):
        driver = Driver(lambda _call: None)
        driver.drive(PlaybookMachine(graph, execution_id=1, secrets_key=SECRETS_KEY))
        calls.append(driver.calls[0])
    assert calls[0].config == calls[1].config
