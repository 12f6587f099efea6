"""Recognize credentials in text by the prefix of their vendor, the words before them, or their key.

A pattern starts with literal characters, so it is found fast. All quantifiers are bounded, so the search takes linear
time. The text after a vendor's prefix must be long enough, and the prefix must not be the end of a longer word. Words
such as ``password=`` are weaker evidence: the text after them is reported only if it is not a template, a placeholder,
a variable or the name of a credential in a store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

__all__ = [
    "Match",
    "assigned_secrets",
    "is_placeholder",
    "is_secret_key",
    "is_secret_value",
    "may_assign",
    "may_have_secret_keys",
    "secret_defaults",
    "secret_patterns_in",
]

Match = tuple[int, int, str]
"""Start and end of a credential in a text, and its description: ``a Slack token``."""

_PATTERNS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "a private key": re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----[^-]*"),
        "an AWS access key": re.compile(r"A[KS]IA(?<![A-Za-z0-9]A[KS]IA)[0-9A-Z]{16}\b"),
        "a GitHub token": re.compile(r"gh[pousr]_(?<!\wgh._)[A-Za-z0-9]{36}|github_pat_\w{60,100}"),
        "a GitLab token": re.compile(r"glpat-[\w-]{20,60}"),
        "a Slack token": re.compile(r"xox[abeprs]-(?<!\wxox.-)[A-Za-z0-9-]{10,100}"),
        "a Slack webhook": re.compile(r"hooks\.slack\.com/services/T\w{8,12}/B\w{8,12}/\w{20,40}"),
        "a Discord webhook": re.compile(r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{50,80}"),
        "a Telegram token": re.compile(r"\b\d{8,10}:AA[\w-]{33}\b"),
        "a Google key": re.compile(r"AIza(?<!\wAIza)[0-9A-Za-z_-]{35}\b|ya29\.(?<!\wya29\.)[\w-]{30,300}"),
        "an Azure key": re.compile(r"AccountKey=[A-Za-z0-9+/]{40,100}={0,2}"),
        "an API key": re.compile(r"sk-(?<!\wsk-)(?=[a-z-]{0,40}[A-Z0-9])[A-Za-z0-9_-]{32,200}"),
        "a Stripe key": re.compile(r"[rs]k_(?:live|test)_[0-9A-Za-z]{20,100}|whsec_[0-9A-Za-z+/]{20,100}"),
        "a SendGrid key": re.compile(r"SG\.(?<!\wSG\.)[\w-]{16,32}\.[\w-]{32,64}"),
        "a Twilio key": re.compile(r"SK(?<!\wSK)[0-9a-f]{32}\b"),
        "an npm token": re.compile(r"npm_(?<!\wnpm_)[A-Za-z0-9]{36}\b"),
        "a PyPI token": re.compile(r"pypi-AgE[\w-]{50,200}"),
        "a Hugging Face token": re.compile(r"hf_(?<!\whf_)[A-Za-z]{34}\b"),
        "a DigitalOcean token": re.compile(r"do[opr]_v1_[0-9a-f]{64}"),
        "a Vault token": re.compile(r"hv[bs]\.(?<!\whv.\.)[A-Za-z0-9_-]{24,200}"),
        "a Shopify token": re.compile(r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
        "a Databricks token": re.compile(r"dapi(?<!\wdapi)[0-9a-f]{32}\b"),
        "an Atlassian token": re.compile(r"ATATT3[\w=-]{50,300}"),
        "a JSON web token": re.compile(r"eyJ(?<!\weyJ)[\w-]{8,200}\.eyJ[\w-]{8,2000}(?:\.[\w-]{0,1000})?"),
        "a password in a URL": re.compile(r"://[^\s:/@{}]{0,60}:(?P<secret>(?!\*)[^\s:/@{}$<]{1,100})@"),
        "a key in a URL": re.compile(
            r"[?&](?:api_?key|access_token|auth|client_secret|key|password|secret|sig|signature|token)="
            r"(?P<secret>(?=[^&\s]{0,60}\d)[\w.~%+/-]{16,300}=*)"
        ),
        "a bearer token": re.compile(r"[Bb]earer\s(?P<secret>(?=[A-Za-z._~+/-]{0,60}\d)[A-Za-z0-9._~+/-]{20,500}=*)"),
    }
)

_MARKERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "a Telegram token": (":AA",),
        "a Google key": ("AIza", "ya29."),
        "a Stripe key": ("k_live_", "k_test_", "whsec_"),
        "a key in a URL": tuple(
            f"{word}=" for word in ("key", "token", "auth", "secret", "password", "sig", "signature")
        ),
        "a bearer token": ("earer",),
    }
)
"""Text that every match of a pattern contains, for those that do not start with literal text. Searching for it first is
ten times as fast.
"""

_KEYS = (
    r"password|passwd|pwd|passphrase|pass|secret|token|bearer|api[_-]?key|apikey"
    r"|(?:private|access|secret|account|encryption|signing|master|shared)[_-]?key"
)
_SECRET_KEY = re.compile(rf"(?:.*[_-])?(?:{_KEYS})|pgpassword|(?:proxy-)?authorization", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:password|passwd|pwd|passphrase)$", re.IGNORECASE)
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLACEHOLDER = re.compile(
    r"<.*>|\[.*\]|%.*|:\w+|\$\{?.*\}?|\*+|x+|\.{3}|-|none|null|true|false|(?:user|pass|password|secret|token)"
    r"|.*(?:change[_-]?me|your[_-]|placeholder|dummy|redacted).*|(?:.*[^a-z0-9])?example(?:[^a-z0-9].*)?",
    re.IGNORECASE | re.DOTALL,
)
_UPPER_CASE = re.compile(r"[A-Z][A-Z_]*")
"""``YOUR_TOKEN``, ``PASSWORD``: a placeholder."""

_NAME = re.compile(r"[a-z]+(?:[-_./:][a-z]+)+|(?:arn|aws|env|file|gcp|kv|op|ref|secret|secrets|projects|vault)[:/+].*")
"""How credentials are named in a store; a secret itself has digits or no such parts."""

_WORDS_OF_ASSIGNMENTS = (
    "passw",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "identified by",
)
_PARTS_OF_SECRET_KEYS = ("pass", "pwd", "secret", "token", "bearer", "key", "author", "\\")
_QUOTED = re.compile(
    rf"(?P<key>[\w-]{{0,40}}(?:{_KEYS}))['\"]?\]?\s{{0,9}}(?:=>|:|=)\s{{0,9}}[bru]?(?P<quote>['\"])"
    r"(?P<secret>[^\s'\"{}]{4,200})(?P=quote)",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?:^|[\s;'\"])(?P<key>password|passwd|pwd)=(?P<secret>[^\s;'\",(){}\[\]<>$]{4,100})(?=[\s;'\"]|$)",
    re.IGNORECASE,
)
_SQL = re.compile(r"\b(?P<key>password|secret|identified\s{1,9}by)\s{1,9}'(?P<secret>[^\s'{}]{4,200})'", re.IGNORECASE)
_DEFAULT = re.compile(r"(?:\b(?:default|d)\(\s{0,9}|\bor\s{1,9})(['\"])(?P<secret>[^\s'\"]{4,200})\1")


def secret_patterns_in(text: str) -> Mapping[str, re.Pattern[str]]:
    """Return description -> pattern of the credentials in a document, usually few."""
    return {
        description: pattern
        for description, pattern in _PATTERNS.items()
        if _has_marker(description, text) and pattern.search(text)
    }


def _has_marker(description: str, text: str) -> bool:
    return description not in _MARKERS or any(marker in text for marker in _MARKERS[description])


def may_assign(text: str) -> bool:
    """Whether the text may contain assignments of secrets: a fast check before the exact ones."""
    lower_text = text.lower()
    return any(word in lower_text for word in _WORDS_OF_ASSIGNMENTS)


def may_have_secret_keys(text: str) -> bool:
    """Whether a document may contain keys whose value is secret: a fast check before looking at each. A backslash
    counts, because its escape may stand for any letter.
    """
    caseless_text = text.casefold()
    return any(part in caseless_text for part in _PARTS_OF_SECRET_KEYS)


def assigned_secrets(text: str, *, is_code: bool) -> Iterator[Match]:
    """Yield the secrets of ``password = 'x'`` in code, ``PASSWORD 'x'`` in SQL, ``password=x`` in connections."""
    for pattern in (_QUOTED, _SQL) if is_code else (_QUOTED, _SQL, _BARE):
        for match in pattern.finditer(text):
            if is_secret_value(match["key"], match["secret"]):
                yield *match.span("secret"), f'the "{match["key"]}"'


def secret_defaults(key: str, text: str) -> Iterator[tuple[int, int]]:
    """Return the positions of default values such as ``x`` in ``{{ payload.password | default('x') }}``."""
    return (match.span("secret") for match in _DEFAULT.finditer(text) if is_secret_value(key, match["secret"]))


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Whether the value of a key is secret: ``db_password``, ``clientSecret``, ``X-API-Key``."""
    return _SECRET_KEY.fullmatch(_CAMEL_CASE_BOUNDARY.sub("_", key)) is not None


def is_secret_value(key: str, value: str) -> bool:
    """Whether a word is a secret itself, not a placeholder or a name."""
    is_name = _NAME.fullmatch(value) and not _PASSWORD.search(key)
    return not (is_name or is_placeholder(value) or _UPPER_CASE.fullmatch(value))


def is_placeholder(value: str) -> bool:
    """Whether a word is a placeholder for a secret: ``<password>``, ``${TOKEN}``, ``changeme``."""
    return _PLACEHOLDER.fullmatch(value) is not None
