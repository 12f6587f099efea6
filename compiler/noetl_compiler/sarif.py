"""Diagnostics as a SARIF 2.1.0 log, for the annotations of a CI such as GitHub's code scanning.

One run, a rule for every code that occurs, and for every finding its place, the places it is related to and a
fingerprint. By the fingerprint a CI recognises a finding whose line has moved: it is made of
the file, the code and the message, and of a number where the same is found again. Columns count characters from 1, and
the end is exclusive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, sort_and_dedupe
from noetl_compiler.source import Span

__all__ = ["sarif"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def sarif(diagnostics: Iterable[Diagnostic], folder: str = "") -> str:
    """Return the log as JSON. Paths below ``folder``, an absolute path, are relative to it, as a CI expects."""
    found = sort_and_dedupe(diagnostics)
    codes = sorted({one.code for one in found}, key=lambda code: code.value)
    run = {
        "tool": {"driver": {"name": "noetl", "rules": [_rule(code, found) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "the folder in which the compiler ran"}}},
        "results": [
            _result(one, codes.index(one.code), fingerprint, _Places(one.file, folder))
            for one, fingerprint in zip(found, _fingerprints(found), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(code: Code, found: Iterable[Diagnostic]) -> dict[str, Any]:
    level = min(one.severity.value for one in found if one.code is code)  # an error is less than a warning
    return {
        "id": code.value,
        "name": code.name.title().replace("_", ""),
        "shortDescription": {"text": code.name.replace("_", " ").capitalize()},
        "fullDescription": {"text": code.meaning},
        "help": {
            "text": f"{code.meaning} For an example see {code.docs}.",
            "markdown": f"{code.meaning} For an example see `{code.docs}`.",
        },
        "defaultConfiguration": {"level": level},
    }


def _result(found: Diagnostic, rule: int, fingerprint: str, places: _Places) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.code.value,
        "ruleIndex": rule,
        "level": found.severity.value,
        "message": {"text": f"{found.message} ({found.hint})" if found.hint else found.message},
        "locations": [places.location(found.span)],
        "partialFingerprints": {"finding/v1": fingerprint},
    }
    if found.related:
        result["relatedLocations"] = [places.related(number, one) for number, one in enumerate(found.related, 1)]
    return result


def _fingerprints(found: Iterable[Diagnostic]) -> Iterator[str]:
    seen: dict[tuple[str, str, str], int] = {}
    for one in found:
        key = one.file, one.code.value, one.message
        seen[key] = seen.get(key, 0) + 1
        yield hashlib.sha256(json.dumps([*key, seen[key]]).encode()).hexdigest()[:32]


class _Places:
    """The locations related to a finding in one file."""

    def __init__(self, file: str, folder: str) -> None:
        self._file = file
        self._folder = folder

    def location(self, span: Span, file: str = "") -> dict[str, Any]:
        region = {
            "startLine": span.line,
            "startColumn": span.col,
            "endLine": span.end_line,
            "endColumn": span.end_col,
        }
        artifact = _artifact(file or self._file, self._folder)
        return {"physicalLocation": {"artifactLocation": artifact, "region": region}}

    def related(self, number: int, other: Related) -> dict[str, Any]:
        return {"id": number, "message": {"text": other.message}, **self.location(other.span, other.file)}


def _artifact(file: str, folder: str) -> dict[str, str]:
    name = file.removeprefix(f"{folder.rstrip('/')}/") if folder else file
    if name.startswith("/"):
        return {"uri": f"file://{quote(name)}"}
    return {"uri": quote(name.removeprefix("./")), "uriBaseId": _ROOT}
