"""The network of the examples of the reference: https://api.example.com, which begins anew each time, and loopback."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["transport"]

USERS = [{"id": number, "name": name} for number, name in enumerate(("Ada", "Ben", "Cleo", "Dan", "Eve"), start=1)]
PAGE_SIZE = 2


def transport() -> httpx.AsyncBaseTransport:
    """What an HTTP client sends its requests through."""
    api = _Api()
    routes = [
        Route("/users", api.users),
        Route("/users/{id:int}", api.user),
        Route("/events", api.events),
        Route("/orders", api.order, methods=["POST"]),
        Route("/orders/{id}", api.echo, methods=["PUT", "DELETE"]),
        Route("/search", api.echo, methods=["GET", "POST"]),
        Route("/login", api.echo, methods=["POST"]),
        Route("/flaky", api.flaky),
        Route("/busy", api.busy),
        Route("/down", api.down),
        Route("/jobs/{id:int}", api.job),
        Route("/slow", api.slow),
        Route("/health", api.health),
        Route("/private", api.private),
        Route("/token", api.token, methods=["POST"]),
    ]
    return _Network(httpx.ASGITransport(Starlette(routes=routes)))


class _Network(httpx.AsyncBaseTransport):
    """``api`` answers all but requests to loopback."""

    def __init__(self, api: httpx.ASGITransport) -> None:
        self._api = api

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host != "127.0.0.1":
            return await self._api.handle_async_request(request)
        async with httpx.AsyncHTTPTransport() as loopback:
            response = await loopback.handle_async_request(request)
            return httpx.Response(
                response.status_code, headers=response.headers, stream=httpx.ByteStream(await response.aread())
            )


class _Api:
    def __init__(self) -> None:
        self._request_counts: Counter[str] = Counter()

    def _count(self, request: Request) -> int:
        self._request_counts[request.url.path] += 1
        return self._request_counts[request.url.path]

    async def users(self, request: Request) -> Response:
        """By page, with ``more``; or by offset, with ``total``."""
        page = int(request.query_params.get("page", 1))
        first = int(request.query_params.get("offset", (page - 1) * PAGE_SIZE))
        items = USERS[first : first + PAGE_SIZE]
        more = first + PAGE_SIZE < len(USERS)
        headers = {"link": f'<https://api.example.com/users?page={page + 1}>; rel="next"'} if more else {}
        return JSONResponse({"items": items, "page": page, "more": more, "total": len(USERS)}, headers=headers)

    async def user(self, request: Request) -> Response:
        number = request.path_params["id"]
        if number > len(USERS):
            return JSONResponse({"detail": f"there is no user {number}"}, 404)
        return JSONResponse(USERS[number - 1])

    async def events(self, request: Request) -> Response:
        """By cursor: ``next`` is null on the last page."""
        pages: dict[str, tuple[list[int], str | None]] = {"": ([1, 2], "b"), "b": ([3, 4], "c"), "c": ([5], None)}
        data, following = pages[request.query_params.get("cursor", "")]
        return JSONResponse({"data": data, "next": following})

    async def order(self, request: Request) -> Response:
        body: Any = await request.json()
        key = request.headers.get("idempotency-key")
        return JSONResponse({"id": 17, "item": body.get("item"), "key": key}, 201)

    async def echo(self, request: Request) -> Response:
        body = (await request.body()).decode()
        type_ = request.headers.get("content-type")
        answer = {"method": request.method, "query": dict(request.query_params), "type": type_, "body": body}
        return JSONResponse(answer)

    async def flaky(self, request: Request) -> Response:
        """Unavailable twice."""
        if self._count(request) <= 2:
            return JSONResponse({"detail": "try later"}, 503)
        return JSONResponse({"ok": True})

    async def busy(self, request: Request) -> Response:
        if self._count(request) == 1:
            return JSONResponse({"detail": "too many requests"}, 429, {"Retry-After": "7"})
        return JSONResponse({"ok": True})

    async def down(self, _request: Request) -> Response:
        return JSONResponse({"detail": "closed"}, 503)

    async def job(self, request: Request) -> Response:
        """Running twice, then done."""
        state = "running" if self._count(request) <= 2 else "done"
        return JSONResponse({"id": request.path_params["id"], "state": state})

    async def slow(self, _request: Request) -> Response:
        await asyncio.sleep(30)
        return JSONResponse({})

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("fine")

    async def token(self, request: Request) -> Response:
        if "client_secret=cl1ent-secret" not in (await request.body()).decode():
            return JSONResponse({"error": "invalid_client"}, 401)
        return JSONResponse({"access_token": "s3cret-token", "expires_in": 600})

    async def private(self, request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer s3cret-token":
            return JSONResponse({"detail": "who are you?"}, 401)
        return JSONResponse({"hello": "Ada"})
