"""One pattern for all encodings of secrets except escapes, which are decoded before (text_view.py).

A secret is found in upper or lower case, in hexadecimal, in both alphabets of base64 at any position of the encoded
text, with ``+`` for spaces, as UTF-8 decoded as Latin-1, and as UTF-16 decoded as anything else.

In base64, three bytes become four characters, so the encoding of a secret depends on the number of bytes before it. The
pattern has, for each of the three alignments, the characters that only depend on the secret. The adjacent characters
contain bits of it too, and are masked as well. A short secret is recognized only if it is encoded on its own.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from noetl_activities.text_view import ESCAPE_STARTS

__all__ = ["SHORTEST", "SecretPattern", "Span", "secret_pattern"]

SHORTEST = 4
"""Shorter secrets would mask ordinary text everywhere; they are masked only if they are the whole text."""

_SHORTEST_BASE64 = 6
"""Minimum length of an encoding, in characters; shorter ones occur by chance."""

_LONG_BASE64 = 12
"""From this length on, base64 is matched ignoring case, because some servers change the case."""

_LONG = 256
_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")

Span: TypeAlias = tuple[int, int]


class SecretPattern(NamedTuple):
    """Patterns that find secrets in text.

    ``whole`` are the secrets themselves, ``short`` those that are matched only as a whole. ``folded`` is searched in
    the lower-case text, ``exact`` in the original; ``suspect`` matches both and the start of escapes.
    """

    whole: frozenset[str]
    short: frozenset[str]
    folded: re.Pattern[str] | None
    exact: re.Pattern[str] | None
    suspect: re.Pattern[str]
    encoded: frozenset[str]

    def may_be_in(self, text: str) -> bool:
        """Whether the text may contain a secret that is not short. A fast check with false positives."""
        return self.suspect.search(_folded(text)) is not None

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the spans of secrets in the text, unordered. They may overlap."""
        if self.folded is not None:
            low = _folded(text)
            for match in self.folded.finditer(low):
                yield _widened(text, match.span()) if match[0] in self.encoded else match.span()
        if self.exact is not None:
            for match in self.exact.finditer(text):
                yield _widened(text, match.span())


@lru_cache(maxsize=32)
def secret_pattern(secrets: frozenset[str]) -> SecretPattern:
    """Return the pattern of these secrets."""
    long = [secret for secret in secrets if len(secret) >= SHORTEST]
    plain = {_folded(form) for secret in long for form in _plain_forms(secret)}
    base64s = {form for secret in long for form in _base64_forms(secret)}
    encoded = frozenset(_folded(form) for form in base64s if len(form) >= _LONG_BASE64) - plain
    exact = {form for form in base64s if len(form) < _LONG_BASE64}
    folded = plain | encoded
    suspect = _any_of({*folded, *map(_folded, exact), *ESCAPE_STARTS})
    short = secrets.difference(long)
    return SecretPattern(secrets, short, _any_of(folded), _any_of(exact), suspect or re.compile("(?!)"), encoded)


def _folded(text: str) -> str:
    """Return the text in lower case, character by character, so that its length does not change."""
    return text.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i").replace(_SIGMA, _SIGMA.lower()).lower()


def _plain_forms(secret: str) -> set[str]:
    utf8, *others = _encoded(secret)
    return {secret, secret.replace(" ", "+"), utf8.hex(), *(raw.decode("latin-1") for raw in (utf8, *others))}


def _base64_forms(secret: str) -> Iterator[str]:
    for raw in _encoded(secret):
        for before, skipped in enumerate((0, 2, 3)):
            digits = base64.b64encode(bytes(before) + raw).decode()
            alone = digits[skipped : (before + len(raw)) * 8 // 6]
            for form in (alone,) if before else (alone, digits.rstrip("=")):
                if len(form) >= _SHORTEST_BASE64:
                    yield form
                    yield form.translate(_URL_SAFE)


def _encoded(secret: str) -> list[bytes]:
    """Return the secret as UTF-8; a short one also as UTF-16 of both byte orders, without the outer zero byte."""
    utf8 = secret.encode("utf-8", "surrogatepass")
    if len(secret) > _LONG:
        return [utf8]
    little = secret.encode("utf-16-le", "surrogatepass")
    big = secret.encode("utf-16-be", "surrogatepass")
    return [utf8, *{little.removesuffix(b"\0"), big.removeprefix(b"\0")}]


_URL_SAFE = str.maketrans("+/", "-_")


def _any_of(forms: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any of the forms. It tests the first character first, where most positions fail."""
    by_first: defaultdict[str, list[str]] = defaultdict(list)
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        by_first[form[0]].append(re.escape(form[1:]))
    branches = [f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in sorted(by_first.items())]
    return re.compile("|".join(branches)) if branches else None


def _widened(text: str, span: Span) -> Span:
    """Return the span with the adjacent base64 characters, which contain some of its bits, and the padding."""
    start, end = span
    if start and text[start - 1] in _DIGITS:
        start -= 1
    if end < len(text) and text[end] in _DIGITS:
        end += 1
    while end < len(text) and text[end] == "=" and end < span[1] + 3:
        end += 1
    return start, end
