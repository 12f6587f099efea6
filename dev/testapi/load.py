"""Weight and parallelism: heavy pages, a probe that measures overlap, records that refer to one another."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dev.testapi.pages import PAGE
from dev.testapi.query import number, real, text

__all__ = ["HEAVY_ROUTES", "Concurrency"]

HEAVY_ITEMS = 100
CHAIN_ITEMS = 382


def _payload(kilobytes: int) -> str:
    return random.randbytes(kilobytes * 512).hex()


async def heavy(request: Request) -> JSONResponse:
    """Pages of 100 items with a random payload each."""
    page, size = number(request, "page", 1, minimum=1), number(request, "pageSize", PAGE, minimum=1)
    weight = number(request, "payload_kb", 10)
    ids = range((page - 1) * size + 1, min(page * size, HEAVY_ITEMS) + 1)
    return JSONResponse(
        {
            "data": [{"id": i, "name": f"Heavy {i}", "score": 50 + i % 50, "payload": _payload(weight)} for i in ids],
            "paging": {
                "hasMore": page * size < HEAVY_ITEMS,
                "page": page,
                "pageSize": size,
                "total": HEAVY_ITEMS,
            },
            "meta": {"payload_kb_per_item": weight, "estimated_response_kb": weight * len(ids)},
        }
    )


async def heavy_stats(_request: Request) -> JSONResponse:
    """What the heavy endpoint holds."""
    return JSONResponse({"total_items": HEAVY_ITEMS, "default_page_size": PAGE, "default_payload_kb": 10})


def _chain_record(i: int, total: int, mode: str, window: int, weight: int) -> dict[str, Any]:
    """Record ``i`` and what it refers to: its neighbours, a window before it, or all before it."""
    nearest = {"linked": i - 1, "windowed": i - window, "expanded": 1}[mode]
    return {
        "record_id": i,
        "id": i,
        "name": f"Record {i}",
        "previous_id": i - 1 if i > 1 else None,
        "next_id": i + 1 if i < total else None,
        "refs": list(range(max(1, nearest), i)),
        "payload": _payload(weight),
    }


def _chain_query(request: Request) -> tuple[int, str, int, int]:
    mode = text(request, "ref_mode", "linked")
    if mode not in ("linked", "windowed", "expanded"):
        raise HTTPException(422, "ref_mode must be linked, windowed or expanded")
    total = number(request, "total", CHAIN_ITEMS, minimum=1)
    return total, mode, number(request, "chain_window", 2, minimum=1), number(request, "payload_kb", 1)


async def chain_items(request: Request) -> JSONResponse:
    """A page of linked records."""
    total, mode, window, weight = _chain_query(request)
    page, size = number(request, "page", 1, minimum=1), number(request, "pageSize", 25, minimum=1)
    ids = range((page - 1) * size + 1, min(page * size, total) + 1)
    return JSONResponse(
        {
            "data": [_chain_record(i, total, mode, window, weight) for i in ids],
            "paging": {"hasMore": page * size < total, "page": page, "pageSize": size, "total": total},
        }
    )


async def chain_detail(request: Request) -> JSONResponse:
    """One linked record."""
    total, mode, window, weight = _chain_query(request)
    i = int(request.path_params["record_id"])
    if not 1 <= i <= total:
        raise HTTPException(404, f"no record {i}")
    return JSONResponse(_chain_record(i, total, mode, window, weight))


class Concurrency:
    """Measures how many probes overlap."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._started = self._completed = self._active = self._most = 0
        self._recent: deque[dict[str, Any]] = deque(maxlen=200)

    def _note(self, event: str, label: str) -> None:
        entry = {"event": event, "label": label, "active": self._active, "at": time.time()}
        self._recent.append(entry)

    def _figures(self) -> dict[str, Any]:
        return {
            "started": self._started,
            "completed": self._completed,
            "active": self._active,
            "max_active": self._most,
        }

    async def reset(self, _request: Request) -> JSONResponse:
        """Start counting anew."""
        self._clear()
        return JSONResponse({"status": "reset", **self._figures()})

    async def stats(self, _request: Request) -> JSONResponse:
        """What was counted since the reset."""
        return JSONResponse({**self._figures(), "recent_events": list(self._recent)})

    async def probe(self, request: Request) -> JSONResponse:
        """Wait ``delay_seconds``, then return how many requests were here at once."""
        delay, label = real(request, "delay_seconds", 1.0, maximum=300), text(request, "label")
        self._started += 1
        self._active += 1
        self._most = max(self._most, self._active)
        self._note("started", label)
        try:
            await asyncio.sleep(delay)
        finally:
            self._active -= 1
            self._completed += 1
            self._note("completed", label)
        return JSONResponse({"status": "ok", "label": label, "delay_seconds": delay, **self._figures()})

    def routes(self) -> list[Route]:
        """Where they are served."""
        return [
            Route("/api/v1/concurrency/reset", self.reset, methods=["POST"]),
            Route("/api/v1/concurrency/stats", self.stats),
            Route("/api/v1/concurrency/probe", self.probe),
        ]


HEAVY_ROUTES = [
    Route("/api/v1/heavy", heavy),
    Route("/api/v1/heavy/stats", heavy_stats),
    Route("/api/v1/reference-chain/items", chain_items),
    Route("/api/v1/reference-chain/detail/{record_id:int}", chain_detail),
]
