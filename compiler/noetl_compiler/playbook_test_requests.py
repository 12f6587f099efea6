"""Reads the requests of a playbook test: what people and programs send to the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.graph import Json
from noetl_compiler.language.constructs.playbook_tests import MOMENTS, REQUESTS
from noetl_compiler.nodes import Node, plain
from noetl_compiler.source import Span
from noetl_compiler.syntax import Name

__all__ = ["UNAWAITED", "Request", "number_of", "read_request", "seconds_of"]

_WHO = ("by", "reason")
_TAKES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "signal": ("name", "key", "data"),
        "approve": ("step", "iteration", "form", *_WHO),
        "reject": ("step", "iteration", "form", *_WHO),
        "pause": ("step", *_WHO),
        "resume": _WHO,
        "retry": ("step", "iteration", *_WHO),
        "skip": ("step", "iteration", "data", *_WHO),
        "cancel": ("step", "reason"),
    }
)
"""The keys that each request may have beside ``do``, ``when`` and ``at``."""

_NEEDS: Mapping[str, str] = MappingProxyType({"signal": "name", "skip": "step"})
"""The key that a request cannot do without."""

UNAWAITED = ("pause", "cancel")
"""Requests for which no run waits: they come while it runs."""

_SOMEBODY = "test"


@dataclass(frozen=True)
class Request:
    """``do`` is the command. It is sent ``at`` seconds after the start of the run, else as the run starts where
    it ``is_first``, else as soon as the run waits for it. ``name`` is that of a signal.
    """

    do: str
    span: Span
    name: Name | None = None
    key: str | None = None
    step: Name | None = None
    iteration: int | None = None
    data: Json = None
    by: str = _SOMEBODY
    reason: str = ""
    form: dict[str, Json] | None = None
    is_first: bool = False
    at: float | None = None

    def __str__(self) -> str:
        target = self.name or self.step
        item = "" if self.iteration is None else f"[{self.iteration}]"
        return self.do if target is None else f"{self.do} {target.text}{item}"


def read_request(fields: ConstructFields) -> Request | None:
    """Read a request; None if its kind (``do``) is missing or unknown."""
    do = fields.choice("do", REQUESTS)
    data, form = fields.node_of("data"), fields.mapping("form")
    key, at = fields.scalar("key"), seconds_of(fields, "at")
    moment = fields.choice("when", MOMENTS)
    request = Request(
        do=do or "",
        span=fields.span,
        name=fields.name("name"),
        key=key.text if key else None,
        step=fields.name("step"),
        iteration=number_of(fields, "iteration"),
        data=plain(data) if data else None,
        by=fields.text("by") or _SOMEBODY,
        reason=fields.text("reason") or "",
        form=cast("dict[str, Json]", plain(form)) if form else None,
        is_first=moment == "start",
        at=at,
    )
    fields.close()
    if do is None:
        return None
    _check(fields, request)
    return request


def _check(fields: ConstructFields, request: Request) -> None:
    takes = _TAKES[request.do]
    for key, node in fields.node.entries:
        if key.text in _ALL and key.text not in takes:
            message = f'"{key.text}" beside "do: {request.do}"'
            hint = f"{request.do} takes {', '.join((*takes, 'when', 'at'))}"
            fields.report.error(Code.CONFLICTING_FIELDS, node.span, message, hint)
    needed = _NEEDS.get(request.do)
    if needed is not None and getattr(request, needed) is None:
        fields.report.error(Code.MISSING_FIELD, fields.span, f'"do: {request.do}" needs "{needed}"')
    if request.at is not None and "when" in fields:
        node = cast("Node", fields.node.get("at"))
        fields.report.error(Code.CONFLICTING_FIELDS, node.span, '"at" beside "when"', "keep one of them")
    if request.do in UNAWAITED and not any(key in fields for key in ("step", "at", "when")):
        hint = (
            f"a run never waits for a {request.do}: write step: (it comes after that step starts), at: or when: start"
        )
        fields.report.error(Code.MISSING_FIELD, fields.span, f'"do: {request.do}" needs a moment', hint)


_ALL = frozenset(key for keys in _TAKES.values() for key in keys)


def number_of(fields: ConstructFields, key: str) -> int | None:
    """A number from 0."""
    found = fields.index(key)
    return cast("int", found.value) if found else None


def seconds_of(fields: ConstructFields, key: str) -> float | None:
    """Read a duration in seconds; report a template."""
    found = fields.seconds(key)
    if found is None or isinstance(found.data, int | float):
        return float(found.data) if found else None
    node = cast("Node", fields.node_of(key))
    fields.report.error(Code.WRONG_VALUE, node.span, f'"{key}" is a template', "tests have no templates: write 30s")
    return None
