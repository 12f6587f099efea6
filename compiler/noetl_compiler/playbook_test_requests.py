"""Read the requests of a playbook test: the signals, decisions and commands that are sent to the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.graph import Json
from noetl_compiler.language.constructs.playbook_tests import MOMENTS, REQUESTS
from noetl_compiler.nodes import Node, to_json
from noetl_compiler.source import Span
from noetl_compiler.syntax import Name

__all__ = ["SENT_WHILE_RUNNING", "Request", "read_integer", "read_request", "read_seconds"]

_AUTHOR_KEYS = ("by", "reason")
_KEYS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "signal": ("name", "key", "data"),
        "approve": ("step", "iteration", "form", *_AUTHOR_KEYS),
        "reject": ("step", "iteration", "form", *_AUTHOR_KEYS),
        "pause": ("step", *_AUTHOR_KEYS),
        "resume": _AUTHOR_KEYS,
        "retry": ("step", "iteration", *_AUTHOR_KEYS),
        "skip": ("step", "iteration", "data", *_AUTHOR_KEYS),
        "cancel": ("step", "reason"),
    }
)
"""The keys that each request may have beside ``do``, ``when`` and ``at``."""

_ALL_KEYS = frozenset(key for keys in _KEYS_OF.values() for key in keys)

_REQUIRED_KEY: Mapping[str, str] = MappingProxyType({"signal": "name", "skip": "step"})
"""The key that a request requires."""

SENT_WHILE_RUNNING = ("pause", "cancel")
"""Requests for which no run waits, so that the test has to say when they are sent."""

_DEFAULT_AUTHOR = "test"


@dataclass(frozen=True)
class Request:
    """A request to the run. ``do`` is the command, and ``name`` the name of a signal.

    It is sent ``at`` seconds after the start of the run; if ``at`` is None, at the start of the run if ``is_at_start``,
    otherwise as soon as the run waits for it.
    """

    do: str
    span: Span
    name: Name | None = None
    key: str | None = None
    step: Name | None = None
    iteration: int | None = None
    data: Json = None
    by: str = _DEFAULT_AUTHOR
    reason: str = ""
    form: dict[str, Json] | None = None
    is_at_start: bool = False
    at: float | None = None

    def __str__(self) -> str:
        target = self.name or self.step
        index = "" if self.iteration is None else f"[{self.iteration}]"
        return self.do if target is None else f"{self.do} {target.text}{index}"


def read_request(fields: ConstructFields) -> Request | None:
    """Read a request; None if its kind (``do``) is missing or unknown."""
    do = fields.choice("do", REQUESTS)
    data, form = fields.node_of("data"), fields.mapping("form")
    key, at = fields.scalar("key"), read_seconds(fields, "at")
    moment = fields.choice("when", MOMENTS)
    request = Request(
        do=do or "",
        span=fields.span,
        name=fields.name("name"),
        key=key.text if key else None,
        step=fields.name("step"),
        iteration=read_integer(fields, "iteration"),
        data=to_json(data) if data else None,
        by=fields.text("by") or _DEFAULT_AUTHOR,
        reason=fields.text("reason") or "",
        form=cast("dict[str, Json]", to_json(form)) if form else None,
        is_at_start=moment == "start",
        at=at,
    )
    fields.check_keys()
    if do is None:
        return None
    _check(fields, request)
    return request


def _check(fields: ConstructFields, request: Request) -> None:
    """Report keys that the command does not have, a missing key, and a missing or ambiguous time."""
    keys = _KEYS_OF[request.do]
    for key, node in fields.node.entries:
        if key.text in _ALL_KEYS and key.text not in keys:
            message = f'"{key.text}" beside "do: {request.do}"'
            hint = f"{request.do} takes {', '.join((*keys, 'when', 'at'))}"
            fields.report.error(Code.CONFLICTING_FIELDS, node.span, message, hint)
    required_key = _REQUIRED_KEY.get(request.do)
    if required_key is not None and getattr(request, required_key) is None:
        fields.report.error(Code.MISSING_FIELD, fields.span, f'"do: {request.do}" needs "{required_key}"')
    if request.at is not None and "when" in fields:
        node = cast("Node", fields.node.get("at"))
        fields.report.error(Code.CONFLICTING_FIELDS, node.span, '"at" beside "when"', "keep one of them")
    if request.do in SENT_WHILE_RUNNING and not any(key in fields for key in ("step", "at", "when")):
        hint = (
            f"a run never waits for a {request.do}: write step: (it comes after that step starts), at: or when: start"
        )
        fields.report.error(Code.MISSING_FIELD, fields.span, f'"do: {request.do}" needs a time', hint)


def read_integer(fields: ConstructFields, key: str) -> int | None:
    """Read an integer of 0 or more."""
    node = fields.integer(key)
    return cast("int", node.value) if node else None


def read_seconds(fields: ConstructFields, key: str) -> float | None:
    """Read a duration in seconds; report a template."""
    seconds = fields.seconds(key)
    if seconds is None or isinstance(seconds.data, int | float):
        return float(seconds.data) if seconds else None
    node = cast("Node", fields.node_of(key))
    fields.report.error(Code.WRONG_VALUE, node.span, f'"{key}" is a template', "tests have no templates: write 30s")
    return None
