"""References to secrets: what they say, and that nobody else can make one."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import templates
from noetl_compiler.secret_references import MARK, SecretReference, format_reference, references_in
from noetl_compiler.templates import Secret, TemplateFailure

KEY = "of the run"
BILLING = SecretReference("billing", "vault", {"path": "secret/billing"}, ("token",))
SCOPE = {"keychain": {"billing": Secret(SecretReference("billing", "vault", {"path": "secret/billing"}), KEY)}}


@given(
    st.text(),
    st.builds(
        SecretReference,
        st.text(min_size=1),
        st.text(),
        st.dictionaries(st.text(), st.text() | st.integers(0, 9) | st.lists(st.text())),
        st.lists(st.text() | st.integers(0, 9)).map(tuple),
        st.sampled_from(["value", "json"]),
    ),
    st.text(),
)
def test_a_reference_is_found_in_any_text(before: str, reference: SecretReference, after: str) -> None:
    text = format_reference(reference, KEY)
    [found] = references_in(before + text + after, KEY)
    assert found.reference == reference
    assert (found.start, found.end) == (len(before), len(before) + len(text))


def test_a_reference_is_made_of_characters_that_nothing_escapes() -> None:
    text = format_reference(SecretReference("mön/ey key", "vault", {"path": "a/b?c=ü"}, ("a b", 0)), KEY)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
    assert text.startswith(f"{MARK}m-n-ey-key.a-b.0~")


def test_a_reference_of_another_run_is_text() -> None:
    assert list(references_in(format_reference(BILLING, "of another run"), KEY)) == []


def test_a_changed_reference_is_text() -> None:
    _, label, body, mac, _ = format_reference(BILLING, KEY).split("~")
    other = base64.urlsafe_b64encode(b'{"name":"other","kind":"vault"}').decode().rstrip("=")
    for changed_text in (
        f"{MARK}{label}~{other}~{mac}~",
        f"{MARK}{label}~{body}~{mac[:-1]}~",
        f"{MARK}{label}~{body}~~",
    ):
        assert list(references_in(changed_text, KEY)) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ keychain.billing.token }}", "{}"),
        ("{{ keychain['billing']['token'] }}", "{}"),
        ("Bearer {{ keychain.billing.token }}", "Bearer {}"),
        ("{{ 'Bearer ' ~ keychain.billing.token }}", "Bearer {}"),
        ("{{ 'Bearer ' + keychain.billing.token }}", "Bearer {}"),
        ("{{ keychain.billing.token + '!' }}", "{}!"),
        ("{{ keychain.billing.token | default('none') }}", "{}"),
        ("{{ '%s!' | format(keychain.billing.token) }}", "{}!"),
        ("{% if true %}{{ keychain.billing.token }}{% endif %}", "{}"),
    ],
)
def test_a_template_passes_a_secret_on(source: str, expected: str) -> None:
    assert templates.render_text(source, SCOPE) == expected.format(format_reference(BILLING, KEY))


def test_a_secret_as_json_is_resolved_as_json() -> None:
    text = templates.render_text("{{ keychain.billing.token | tojson }}", SCOPE)
    [reference] = references_in(text, KEY)
    assert (reference.reference.form, reference.reference.path) == ("json", ("token",))
    assert templates.render_text("{{ {'a': keychain.billing.token} }}", SCOPE) == {"a": format_reference(BILLING, KEY)}


@pytest.mark.parametrize(
    "expression",
    [
        "keychain.billing.token | upper",
        "keychain.billing.token | length",
        "keychain.billing.token | int",
        "keychain.billing.token | float",
        "keychain.billing.token | urlencode",
        "keychain.billing.token | first",
        "keychain.billing.token | list",
        "keychain.billing.token == 'x'",
        "'x' == keychain.billing.token",
        "keychain.billing.token < 'x'",
        "'x' in keychain.billing.token",
        "keychain.billing.token in ['x']",
        "keychain.billing.token | default('x', true)",
        "'a' if keychain.billing.token else 'b'",
        "not keychain.billing.token",
        "keychain.billing.token * 2",
        "('me:' ~ keychain.billing.token) | b64encode",
        "keychain.billing.token.upper()",
        "keychain.billing.token | round",
        "[keychain.billing.token, 'x'] | sort",
        "{keychain.billing.token: 1}",
    ],
)
def test_a_template_can_do_nothing_else_with_a_secret(expression: str) -> None:
    with pytest.raises(TemplateFailure):
        templates.render_text(f"{{{{ {expression} }}}}", SCOPE)


def test_the_failure_names_the_secret() -> None:
    message = '"billing.token" is a secret, whose value is only available to the called tool: a template can pass it on'
    with pytest.raises(TemplateFailure, match=message):
        templates.render_text("{{ keychain.billing.token | upper }}", SCOPE)
    with pytest.raises(TemplateFailure, match=message):
        templates.predicate("{{ keychain.billing.token }}", SCOPE)


def test_a_condition_can_test_whether_a_secret_exists() -> None:
    assert templates.predicate("{{ keychain.billing.token is defined }}", SCOPE).matched


def test_parts_of_the_scope_are_passed_on_as_references() -> None:
    names: dict[str, Any] = templates.project(SCOPE, ["keychain.billing.token"])
    assert names == {"keychain": {"billing": {"token": format_reference(BILLING, KEY)}}}
