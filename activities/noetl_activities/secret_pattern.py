"""One pattern for all encodings of secrets except escapes, which are decoded before the search (text_view.py).

It finds a secret in upper or lower case, in hexadecimal, in both alphabets of base64 at any position of the encoded
data, with ``+`` for spaces, as UTF-8 decoded as Latin-1, and as UTF-16 decoded as any other encoding.

In base64, three bytes become four characters, so the encoding of a secret depends on the number of bytes before it. For
each of the three alignments, the pattern has the characters that only depend on the secret. The adjacent characters
contain bits of the secret too, and are also masked. A short secret is recognized only if it is encoded on its own.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from noetl_activities.text_view import ESCAPE_STARTS

__all__ = ["MIN_SECRET_CHARS", "SecretPattern", "Span", "secret_pattern"]

MIN_SECRET_CHARS = 4
"""A shorter secret is masked only if it is a whole string, as it would otherwise mask parts of ordinary text."""

_MIN_BASE64_CHARS = 6
"""Minimum length of an encoding, in characters; shorter ones occur by chance."""

_CASELESS_BASE64_CHARS = 12
"""From this length on, base64 is matched ignoring case, because some servers change the case."""

_MAX_UTF16_CHARS = 256
_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
_BASE64_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")

Span: TypeAlias = tuple[int, int]


class SecretPattern(NamedTuple):
    """Patterns that find secrets in text.

    ``short_secrets`` are masked only as a whole string. ``caseless`` is searched in the lower-case text, ``exact_case``
    in the text itself. ``prefilter`` matches what both match, and the start of escapes. ``base64_forms`` are the base64
    encodings in ``caseless``.
    """

    secrets: frozenset[str]
    short_secrets: frozenset[str]
    caseless: re.Pattern[str] | None
    exact_case: re.Pattern[str] | None
    prefilter: re.Pattern[str]
    base64_forms: frozenset[str]

    def may_match(self, text: str) -> bool:
        """Whether the text may contain a secret that is not short. A fast check with false positives."""
        return self.prefilter.search(_lower(text)) is not None

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of secrets in the text, unordered. They may overlap."""
        if self.caseless is not None:
            lower_text = _lower(text)
            for match in self.caseless.finditer(lower_text):
                yield _widen(text, match.span()) if match[0] in self.base64_forms else match.span()
        if self.exact_case is not None:
            for match in self.exact_case.finditer(text):
                yield _widen(text, match.span())


@lru_cache(maxsize=32)
def secret_pattern(secrets: frozenset[str]) -> SecretPattern:
    """Return the pattern of these secrets."""
    long_secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS]
    plain = {_lower(form) for secret in long_secrets for form in _plain_forms(secret)}
    base64s = {form for secret in long_secrets for form in _base64_forms(secret)}
    base64_forms = frozenset(_lower(form) for form in base64s if len(form) >= _CASELESS_BASE64_CHARS) - plain
    exact_case = {form for form in base64s if len(form) < _CASELESS_BASE64_CHARS}
    folded_forms = plain | base64_forms
    prefilter = _any_of({*folded_forms, *map(_lower, exact_case), *ESCAPE_STARTS})
    short_secrets = secrets.difference(long_secrets)
    return SecretPattern(
        secrets,
        short_secrets,
        _any_of(folded_forms),
        _any_of(exact_case),
        prefilter or re.compile("(?!)"),
        base64_forms,
    )


def _lower(text: str) -> str:
    """Return the text in lower case with the same length: ``str.lower`` maps some characters to two."""
    return text.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i").replace(_SIGMA, _SIGMA.lower()).lower()


def _plain_forms(secret: str) -> set[str]:
    utf8_encoding, *utf16_encodings = _byte_encodings(secret)
    return {
        secret,
        secret.replace(" ", "+"),
        utf8_encoding.hex(),
        *(raw.decode("latin-1") for raw in (utf8_encoding, *utf16_encodings)),
    }


def _base64_forms(secret: str) -> Iterator[str]:
    for raw in _byte_encodings(secret):
        for offset, skipped_digits in enumerate((0, 2, 3)):
            digits = base64.b64encode(bytes(offset) + raw).decode()
            secret_digits = digits[skipped_digits : (offset + len(raw)) * 8 // 6]
            for form in (secret_digits,) if offset else (secret_digits, digits.rstrip("=")):
                if len(form) >= _MIN_BASE64_CHARS:
                    yield form
                    yield form.translate(_URL_SAFE)


def _byte_encodings(secret: str) -> list[bytes]:
    """Return the secret as UTF-8; if it is not very long, also as UTF-16 in both byte orders, without the outer zero
    byte.
    """
    utf8 = secret.encode("utf-8", "surrogatepass")
    if len(secret) > _MAX_UTF16_CHARS:
        return [utf8]
    little_endian = secret.encode("utf-16-le", "surrogatepass")
    big_endian = secret.encode("utf-16-be", "surrogatepass")
    return [utf8, *{little_endian.removesuffix(b"\0"), big_endian.removeprefix(b"\0")}]


_URL_SAFE = str.maketrans("+/", "-_")


def _any_of(forms: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any of the forms. It has a branch for each first character, because most positions
    fail there.
    """
    by_first: defaultdict[str, list[str]] = defaultdict(list)
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        by_first[form[0]].append(re.escape(form[1:]))
    branches = [f"{re.escape(first)}(?:{'|'.join(remainders)})" for first, remainders in sorted(by_first.items())]
    return re.compile("|".join(branches)) if branches else None


def _widen(text: str, span: Span) -> Span:
    """Return the span with the adjacent base64 characters, which contain bits of the secret, and with the padding."""
    start, end = span
    if start and text[start - 1] in _BASE64_DIGITS:
        start -= 1
    if end < len(text) and text[end] in _BASE64_DIGITS:
        end += 1
    while end < len(text) and text[end] == "=" and end < span[1] + 3:
        end += 1
    return start, end
