"""Diagnostics as a SARIF 2.1.0 log, for the annotations of a CI such as GitHub's code scanning.

The log has one run, with a rule for every code that occurs, and a result for every diagnostic: its location, related
locations and a fingerprint. By the fingerprint, a CI recognises a diagnostic whose line has moved. It is a hash of the
file, the code, the message, and the ordinal of the diagnostic among those with the same three. Columns count characters
from 1, and the end is exclusive.
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
    """Return the log as JSON. Paths below ``folder``, an absolute path, become relative to it, as a CI expects."""
    sorted_diagnostics = sort_and_dedupe(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in sorted_diagnostics}, key=lambda code: code.value)
    run = {
        "tool": {"driver": {"name": "noetl", "rules": [_rule(code, sorted_diagnostics) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "the folder in which the compiler ran"}}},
        "results": [
            _result(diagnostic, codes.index(diagnostic.code), fingerprint, _Locations(diagnostic.file, folder))
            for diagnostic, fingerprint in zip(sorted_diagnostics, _fingerprints(sorted_diagnostics), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(code: Code, diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    # "error" sorts before "warning"
    level = min(diagnostic.severity.value for diagnostic in diagnostics if diagnostic.code is code)
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


def _result(diagnostic: Diagnostic, rule: int, fingerprint: str, locations: _Locations) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": diagnostic.code.value,
        "ruleIndex": rule,
        "level": diagnostic.severity.value,
        "message": {"text": f"{diagnostic.message} ({diagnostic.hint})" if diagnostic.hint else diagnostic.message},
        "locations": [locations.location(diagnostic.span)],
        "partialFingerprints": {"diagnostic/v1": fingerprint},
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            locations.related_location(number, related) for number, related in enumerate(diagnostic.related, 1)
        ]
    return result


def _fingerprints(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for diagnostic in diagnostics:
        key = diagnostic.file, diagnostic.code.value, diagnostic.message
        counts[key] = counts.get(key, 0) + 1
        yield hashlib.sha256(json.dumps([*key, counts[key]]).encode()).hexdigest()[:32]


class _Locations:
    """Builds the locations of one diagnostic, which is in ``file``."""

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

    def related_location(self, number: int, other: Related) -> dict[str, Any]:
        return {"id": number, "message": {"text": other.message}, **self.location(other.span, other.file)}


def _artifact(file: str, folder: str) -> dict[str, str]:
    name = file.removeprefix(f"{folder.rstrip('/')}/") if folder else file
    if name.startswith("/"):
        return {"uri": f"file://{quote(name)}"}
    return {"uri": quote(name.removeprefix("./")), "uriBaseId": _ROOT}
