"""Three ways to page through the same 35 items: by page number, by offset, by cursor."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dev.testapi.query import number, text

__all__ = ["ITEMS", "PAGE", "ROUTES", "assessments_page"]

ITEMS = 35
PAGE = 10


def assessments_page(page: int, size: int, total: int = ITEMS) -> dict[str, Any]:
    """Page ``page`` (from 1) of ``total`` assessments: {data, paging{hasMore, page, pageSize, total}}."""
    offset, end = (page - 1) * size, page * size
    ids = range(offset + 1, min(end, total) + 1)
    return {
        "data": [{"id": i, "name": f"Assessment {i}", "score": 50 + i % 50} for i in ids],
        "paging": {"hasMore": end < total, "page": page, "pageSize": size, "total": total},
    }


async def assessments(request: Request) -> JSONResponse:
    """Respond with a page by number."""
    size = number(request, "pageSize", PAGE, minimum=1)
    return JSONResponse(assessments_page(number(request, "page", 1, minimum=1), size))


async def users(request: Request) -> JSONResponse:
    """Respond with a page by offset and limit."""
    offset, limit = number(request, "offset", 0), number(request, "limit", PAGE, minimum=1)
    ids = range(offset + 1, min(offset + limit, ITEMS) + 1)
    return JSONResponse(
        {
            "users": [{"id": i, "username": f"user{i}", "email": f"user{i}@example.com"} for i in ids],
            "has_more": offset + limit < ITEMS,
            "offset": offset,
            "limit": limit,
            "total": ITEMS,
        }
    )


def _page_of(cursor: str) -> int:
    """Return the page of a cursor, which is its number in base64; 1 for an invalid cursor."""
    try:
        return max(1, int(base64.b64decode(cursor)))
    except (ValueError, binascii.Error):
        return 1


async def events(request: Request) -> JSONResponse:
    """Respond with a page by opaque cursor."""
    limit, page = number(request, "limit", PAGE, minimum=1), _page_of(text(request, "cursor"))
    end = page * limit
    return JSONResponse(
        {
            "events": [
                {
                    "id": i,
                    "type": "user_action",
                    "timestamp": f"2024-01-{i % 28 + 1:02d}T12:00:00Z",
                    "data": {"action": f"event_{i}"},
                }
                for i in range(end - limit + 1, min(end, ITEMS) + 1)
            ],
            "next_cursor": base64.b64encode(str(page + 1).encode()).decode() if end < ITEMS else None,
            "limit": limit,
        }
    )


async def health(_request: Request) -> JSONResponse:
    """Respond that the server is ready."""
    return JSONResponse({"status": "ok"})


ROUTES = [
    Route("/health", health),
    Route("/api/v1/assessments", assessments),
    Route("/api/v1/users", users),
    Route("/api/v1/events", events),
]
