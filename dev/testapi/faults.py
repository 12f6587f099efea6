"""Responses that fail on purpose: once a page, by kind of error, over a rate."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dev.testapi.pages import ITEMS, PAGE, assessments_page
from dev.testapi.query import number, text

__all__ = ["Faults", "Window"]

TIMEOUT_SECONDS = 30
DETAILS = {
    "429": "Rate limit exceeded",
    "500": "Internal server error",
    "503": "Service unavailable",
    "auth": "Unauthorized",
    "403": "Forbidden",
    "404": "Not found",
}


class Window:
    """Calls seen in the last second."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque()

    def admits(self, limit: int) -> bool:
        """Count one call; False when more than ``limit`` fell into the last second."""
        now = time.monotonic()
        while self._seen and now - self._seen[0] >= 1:
            self._seen.popleft()
        if len(self._seen) >= limit:
            return False
        self._seen.append(now)
        return True


def _fail_pages(raw_value: str) -> set[int]:
    return {int(page) for page in raw_value.split(",") if page.strip().isdigit()}


class Faults:
    """The endpoints that remember earlier requests."""

    def __init__(self) -> None:
        self._requests_of_page: Counter[int] = Counter()
        self._window = Window()

    async def flaky(self, request: Request) -> JSONResponse:
        """The first request of a page in ``fail_on`` gets status 500."""
        page = number(request, "page", 1, minimum=1)
        self._requests_of_page[page] += 1
        if self._requests_of_page[page] == 1 and page in _fail_pages(text(request, "fail_on", "2,3")):
            raise HTTPException(500, "Simulated failure")
        end = page * PAGE
        return JSONResponse(
            {
                "data": [{"id": i, "value": f"item_{i}"} for i in range(end - PAGE + 1, min(end, ITEMS) + 1)],
                "paging": {"hasMore": end < ITEMS, "page": page, "pageSize": PAGE},
            }
        )

    async def reset(self, _request: Request) -> JSONResponse:
        """Forget which pages were asked for."""
        self._requests_of_page.clear()
        return JSONResponse({"status": "reset", "message": "Flaky endpoint counters cleared"})

    async def errors(self, request: Request) -> JSONResponse:
        """A page, or the failure that ``error_type`` names."""
        kind = text(request, "error_type", "none")
        retry_after = {"Retry-After": str(number(request, "retry_after", 5))}
        if kind == "timeout":
            await asyncio.sleep(TIMEOUT_SECONDS)
        if kind in DETAILS:
            status = 401 if kind == "auth" else int(kind)
            raise HTTPException(status, DETAILS[kind], headers=retry_after if status in (429, 503) else None)
        return JSONResponse(assessments_page(number(request, "page", 1, minimum=1), PAGE))

    async def rate_limited(self, request: Request) -> JSONResponse:
        """429 beyond ``requests_per_second`` in any one second."""
        if not self._window.admits(number(request, "requests_per_second", 2, minimum=1)):
            raise HTTPException(429, "Rate limit exceeded", headers={"Retry-After": "1"})
        return JSONResponse(assessments_page(number(request, "page", 1, minimum=1), PAGE))

    def routes(self) -> list[Route]:
        """Where they are served."""
        return [
            Route("/api/v1/flaky", self.flaky),
            Route("/api/v1/flaky/reset", self.reset, methods=["POST"]),
            Route("/api/v1/errors", self.errors),
            Route("/api/v1/rate-limited", self.rate_limited),
        ]
