"""Secrets in the encodings in which servers, libraries and playbooks return them."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, quote_plus, unquote_plus

from dev.attack.attack import Attack, AttackClass
from noetl_activities.scrub import scrub

__all__ = ["CLASS"]

CHARACTERS = string.ascii_letters + string.digits + "!#$%&'()*+,-./:;<=>?@[]^_{|}~ é"


def _as_it_is(secret: str, _rng: random.Random) -> str:
    return secret


def _in_a_url(secret: str, _rng: random.Random) -> str:
    return f"https://user:{quote(secret, safe='')}@db.example/?password={quote_plus(secret)}"


def _all_percent(secret: str, rng: random.Random) -> str:
    form = rng.choice(("%{:02x}", "%{:02X}"))
    return "".join(form.format(byte) for byte in secret.encode())


def _hex(secret: str, rng: random.Random) -> str:
    digits = secret.encode().hex()
    return rng.choice((digits, digits.upper()))


def _in_html(secret: str, rng: random.Random) -> str:
    password = rng.choice((html.escape(secret), "".join(f"&#{ord(char)};" for char in secret)))
    return f"<p>wrong password: {password}</p>"


def _in_json(secret: str, rng: random.Random) -> str:
    return json.dumps({"password": secret}, ensure_ascii=rng.random() < 0.5)


def _in_base64(secret: str, rng: random.Random) -> str:
    """Encode with any of the three alignments, in either alphabet, padded or not."""
    before = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(0, 5)))
    encode = rng.choice((base64.b64encode, base64.urlsafe_b64encode))
    encoded = encode(f"{before}:{secret}:tail".encode()).decode()
    return encoded if rng.random() < 0.5 else encoded.rstrip("=")


def _basic_header(secret: str, rng: random.Random) -> str:
    user = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 9)))
    return "Authorization: Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


FORMS: tuple[Callable[[str, random.Random], str], ...] = (
    *(_as_it_is, _in_a_url, _all_percent, _hex, _in_html, _in_json, _in_base64, _basic_header),
)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield secrets in all forms in turn, each somewhere in a JSON value."""
    for index in range(count):
        form = FORMS[index % len(FORMS)]
        secret = "".join(rng.choices(CHARACTERS, k=rng.randint(12, 40))).strip() + "x"
        yield _attack(form, secret, rng)


def _attack(form: Callable[[str, random.Random], str], secret: str, rng: random.Random) -> Attack:
    text = form(secret, rng)
    value = rng.choice(({"error": text}, {text: 1}, [["a", {"b": f"before {text} after"}]], f"{text}{text}", text))
    return Attack(f"{form.__name__.strip('_')}: {text[:70]}", partial(_gets_through, value, secret))


class _Guard:
    """The function that removes secrets."""

    scrub: Callable[[Any, Collection[str]], Any] = staticmethod(scrub)


def _gets_through(value: Any, secret: str) -> bool:
    """Whether eight consecutive characters of the secret are left, in any of these forms."""
    text = json.dumps(_Guard.scrub(value, {secret}), ensure_ascii=False)
    readings = (text, json.loads(json.dumps(text)), *_decode(text))
    parts = {secret[at : at + 8] for at in range(len(secret) - 7)}
    return any(part in reading for part in parts for reading in readings)


def _decode(text: str) -> Iterator[str]:
    yield text.replace('\\"', '"').replace("\\\\", "\\")
    yield unquote_plus(text)
    yield html.unescape(text)
    for word in "".join(char if char.isalnum() or char in "+/-_" else " " for char in text).split():
        plain = word.replace("-", "+").replace("_", "/")
        for shift in range(4):
            part = plain[shift : shift + (len(plain) - shift) // 4 * 4]
            yield base64.b64decode(part).decode(errors="replace") if part else ""
        even = "".join(char for char in word if char in string.hexdigits)
        yield bytes.fromhex(even[: len(even) // 2 * 2]).decode(errors="replace")


def _return_unchanged(value: Any, _secrets: Collection[str]) -> Any:
    return value


def _disable_guard() -> AbstractContextManager[object]:
    return patch.object(_Guard, "scrub", staticmethod(_return_unchanged))


CLASS = AttackClass(
    "scrubbing",
    _attacks,
    tuple(_attack(form, "correct horse battery", random.Random(1)) for form in FORMS),
    _disable_guard,
)
