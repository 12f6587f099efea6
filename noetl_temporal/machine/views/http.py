"""HTTP responses: the response itself, its body, and the whole result of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_compiler.graph import Json
from noetl_temporal.machine.views.plain import ResultView

__all__ = ["CallView", "HttpView", "body_view"]


class HttpView(ResultView):
    """The result of an http call.

    ``{status_code, headers, url, elapsed, data}``: ``body`` is the data, and the body's own keys can be read
    directly.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if key == "data":
            return body_view(self._result)
        return super().__getitem__(key)

    def _missing(self, key: Any) -> Any:
        body = self._result.get("data")
        if key == "body":
            return body
        if isinstance(body, Mapping) and key in body:
            return cast("Mapping[str, Json]", body)[key]
        return super()._missing(key)

    def materialise(self) -> Json:
        return {**self._result, "body": self._result.get("data")}


class CallStatus(int):
    """The status of an HTTP call in case playbooks; it equals its status code and the word for it."""

    __slots__ = ()
    _WORDS = frozenset({"success", "ok", "completed"})

    def __eq__(self, other: object) -> bool:
        return int(self) == other or other in self._WORDS

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)


class CallView(HttpView):
    """An HTTP response that also has ``status`` and ``metadata``, which shadow the keys of the body."""

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        if key == "status":
            return CallStatus(self._result["status_code"])
        if key == "metadata":
            return {name: value for name, value in self._result.items() if name != "data"}
        return super()._missing(key)


class BodyView(ResultView):
    """The body of a response: its keys shadow those of the response. ``data`` is the body if it has no such key."""

    __slots__ = ("_response",)

    def __init__(self, body: Mapping[str, Json], response: Mapping[str, Json]) -> None:
        super().__init__(body)
        self._response = response

    def _missing(self, key: Any) -> Any:
        if key == "body":
            return self._result
        if key != "data" and key in self._response:
            return self._response[key]
        return super()._missing(key)


def body_view(response: Mapping[str, Json]) -> Any:
    body = response.get("data")
    return BodyView(cast("Mapping[str, Json]", body), response) if isinstance(body, Mapping) else body
