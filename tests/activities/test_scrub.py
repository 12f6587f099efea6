"""No secret in what leaves an activity: however it is spelled, wherever it stands, and where a text is cut."""

from __future__ import annotations

import base64
import html
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_activities.scrub import MASK, TRUNCATION_MARGIN, scrub, truncate
from noetl_activities.secret_values import secrets_of
from noetl_activities.text_view import MAX_ESCAPES

SECRET = "Tr0ub4dor&3 ü/+%\"'"

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "lower": str.lower,
    "percent, least": lambda text: quote(text, safe="!$&'()*+,/:;=?@~"),
    "percent": lambda text: quote(text, safe=""),
    "percent, lower": lambda text: quote(text, safe="").lower(),
    "percent, of all": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "a form": quote_plus,
    "a form, least": lambda text: quote_plus(text, safe="!$'()*,/:;?@~"),
    "HTML": html.escape,
    "HTML, least": lambda text: html.escape(text, quote=False),
    "HTML, decimal": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "HTML, decimal with zeros": lambda text: "".join(f"&#{ord(character):05};" for character in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#X{ord(character):x};" for character in text),
    "HTML, names": lambda text: text.replace("&", "&amp;").replace("ü", "&uuml;").replace("+", "&plus;"),
    "JSON": json.dumps,
    "JSON, as it is": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON, of all": lambda text: "".join(f"\\u{ord(character):04X}" for character in text),
    "JSON in JSON": lambda text: json.dumps(json.dumps({"a": text})),
    "JSON with slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "Python": repr,
    "Python, bytes": lambda text: repr(text.encode()),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal, upper": lambda text: text.encode().hex().upper(),
    "hexadecimal, escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode("latin-1")),
    "Latin-1": lambda text: text.encode().decode("latin-1"),
    "UTF-16": lambda text: text.encode("utf-16-le").decode("latin-1"),
    "UTF-16, big": lambda text: text.encode("utf-16-be").decode("latin-1"),
    "an emoji beside it": lambda text: json.dumps("\U0001f600" + text),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_secret_is_found_in_each_spelling(name: str) -> None:
    spelling = SPELLINGS[name](SECRET)
    left = scrub(f"before {spelling} after", {SECRET})
    assert MASK in left
    assert left.startswith("before ")
    assert left.endswith(" after")
    assert len(left) <= len("before *** after") + 16, left


@pytest.mark.parametrize("altchars", [b"+/", b"-_"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_secret_is_found_in_base64_at_any_offset(before: int, after: int, encoding: str, altchars: bytes) -> None:
    raw = b"u" * before + SECRET.encode(encoding) + b"x" * after
    encoded_secret = base64.b64encode(raw, altchars).decode()
    for text in (encoded_secret, encoded_secret.rstrip("="), quote(encoded_secret, safe="")):
        left = scrub(f"Basic {text}", {SECRET})
        assert MASK in left
        decoded_texts = {text for start in range(3) for text in _decode(left.replace(MASK, "")[6 + start :])}
        assert not any(SECRET[:6].encode(encoding) in text for text in decoded_texts)


def _decode(text: str) -> list[bytes]:
    plain = text.translate(str.maketrans("-_", "+/"))
    return [base64.b64decode(plain[: len(plain) // 4 * 4])] if plain.isascii() and "%" not in plain else []


def test_each_basic_header_of_a_short_password_is_found() -> None:
    left = scrub(base64.b64encode(b"user:x1").decode(), {"x1", "user:x1"})
    assert left == MASK


@given(st.text(min_size=4, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_any_secret_is_found(secret: str, before: str, after: str) -> None:
    for spelling in (secret, secret.swapcase() if secret.isascii() else secret, json.dumps(secret)[1:-1]):
        assert MASK in scrub(before + spelling + after, {secret})


SAMPLES = st.text("%&\\u00123456789abcdefx;#+ ", max_size=60)


@given(SAMPLES, SAMPLES)
def test_any_text_can_be_scrubbed(text: str, secret: str) -> None:
    """Whatever looks like an escape and is none; where nothing is found the text stays."""
    left = scrub(text, {secret})
    assert MASK in left or left == text


def test_other_text_is_not_masked() -> None:
    value: Any = {"a": [1, None, True, "text", 1.5], "100 % & more \\ \\u0041 &nope; %zz": {}}
    assert scrub(value, {"hush", "no"}) == value


def test_a_short_secret_is_removed_only_where_it_is_the_whole() -> None:
    value = {"pin": 123, "text": "123", "number": 51234, "other": "a 123 b", "ab": ["ab", "abc"]}
    assert scrub(value, {"123", "ab"}) == {
        "pin": MASK,
        "text": MASK,
        "number": 51234,
        "other": "a 123 b",
        MASK: [MASK, "abc"],
    }


def test_secrets_are_masked_in_numbers_and_keys() -> None:
    assert scrub({"pin": 4711, "port": 5432, "x4711": 0}, {"4711"}) == {"pin": MASK, "port": 5432, f"x{MASK}": 0}


def nest(depth: int, leaf: Any) -> Any:
    for number in range(depth):
        leaf = [leaf] if number % 2 else {"a": leaf}
    return leaf


@pytest.mark.parametrize("depth", [700, 100_000])
def test_json_of_any_depth_is_scrubbed(depth: int) -> None:
    left: Any = scrub(nest(depth, SECRET), {SECRET})
    while not isinstance(left, str):
        left = left["a" if "a" in left else 0]
    assert left == MASK


def test_a_text_of_nothing_but_escapes_is_masked_whole() -> None:
    text = "%41" * (MAX_ESCAPES + 1) + "hush"
    assert scrub(text, {"hushed"}) == MASK
    assert scrub(text[3:] + " ", {"hushed"}) != MASK


def seconds(work: Callable[[], object]) -> float:
    """Of this thread, whatever else the machine does; the least of three."""
    durations: list[float] = []
    for _ in range(3):
        started_at = time.thread_time()
        work()
        durations.append(time.thread_time() - started_at)
    return min(durations)


@pytest.mark.parametrize("piece", ["some text ", "%41", "\\", "&#1;", "Tr0ub4dor", "aaaaaaaa", "%%25\\u0025"])
def test_the_work_is_linear_in_the_text(piece: str) -> None:
    short, long = piece * (60_000 // len(piece)), piece * (960_000 // len(piece))
    ratio = seconds(lambda: scrub(long, {SECRET, "aaaaaaaaaaaab"})) / seconds(
        lambda: scrub(short, {SECRET, "aaaaaaaaaaaab"})
    )
    assert ratio < 16 * 5


def test_many_secrets_cost_little_more_than_one() -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 20_000
    many_secrets = {f"{number:02}-secret-{number}" for number in range(64)}
    scrub("", many_secrets)  # the pattern is made once
    assert seconds(lambda: scrub(text, many_secrets)) < 10 * seconds(lambda: scrub(text, {SECRET}))


@pytest.mark.parametrize("name", ["plain", "percent, of all", "JSON in JSON", "hexadecimal"])
def test_truncation_never_leaves_half_a_secret(name: str) -> None:
    spelling = SPELLINGS[name](SECRET)
    text = f"{'.' * 10}{spelling}{'.' * 10}"
    for limit in range(len(text) + 1):
        left = truncate(text, limit, {SECRET})
        assert left.replace(MASK, "").replace(".", "").strip('"{}\\: a') == "", (limit, left)
        assert len(left) <= limit + len(MASK)
    assert len(spelling) < TRUNCATION_MARGIN


def test_control_a_truncation_before_the_mask_leaves_half_a_secret() -> None:
    text = f"{'.' * 10}{SECRET}"
    assert SECRET[:9] in scrub(text[:20], {SECRET})


def test_values_in_the_query_string_of_a_url_are_secrets() -> None:
    secrets = secrets_of(
        {"endpoint": "https://a.b/c?sslmode=verify-full&token=can%2Fary+7f3a91&page=12#x"}, frozenset()
    )
    assert {"can%2Fary+7f3a91", "can/ary+7f3a91", "can/ary 7f3a91"} <= secrets
    assert not {"verify-full", "12"} & secrets
