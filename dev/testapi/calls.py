"""Counts every call by path and query, so that a test can check how often something was really fetched."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Calls"]


class Calls:
    """Middleware and the endpoints that show what it counted."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Return an app that counts requests and forwards them to ``app``; it does not count those of the counters."""

        async def count_and_forward(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and not scope["path"].startswith("/__"):
                queries = self._counts.setdefault(scope["path"], Counter())
                queries[scope["query_string"].decode()] += 1
            await app(scope, receive, send)

        return count_and_forward

    async def show(self, _request: Request) -> JSONResponse:
        """{total, calls{path: {total, queries{query string: count}}}}"""
        calls = {path: {"total": queries.total(), "queries": dict(queries)} for path, queries in self._counts.items()}
        return JSONResponse({"total": sum(q.total() for q in self._counts.values()), "calls": calls})

    async def reset(self, _request: Request) -> JSONResponse:
        """Reset the counters."""
        self._counts.clear()
        return JSONResponse({"status": "reset"})

    def routes(self) -> list[Route]:
        """Return the routes of the counters."""
        return [Route("/__calls", self.show), Route("/__calls/reset", self.reset, methods=["POST"])]
