"""The web API of the examples: the shapes and sizes that playbooks count on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dev.testapi.app import build_app


@pytest.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=build_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


async def test_assessments_by_page(api: httpx.AsyncClient) -> None:
    pages = [(await api.get("/api/v1/assessments", params={"page": page})).json() for page in (1, 2, 3, 4)]
    assert [len(page["data"]) for page in pages] == [10, 10, 10, 5]
    assert [page["paging"]["hasMore"] for page in pages] == [True, True, True, False]
    assert pages[0]["data"][0] == {"id": 1, "name": "Assessment 1", "score": 51}
    assert pages[3]["data"][-1]["id"] == 35
    assert pages[3]["paging"] == {"hasMore": False, "page": 4, "pageSize": 10, "total": 35}


async def test_users_by_offset(api: httpx.AsyncClient) -> None:
    last = (await api.get("/api/v1/users", params={"offset": 30})).json()
    assert [user["id"] for user in last["users"]] == [31, 32, 33, 34, 35]
    assert {key: last[key] for key in ("has_more", "offset", "limit", "total")} == {
        "has_more": False,
        "offset": 30,
        "limit": 10,
        "total": 35,
    }


async def test_events_by_cursor(api: httpx.AsyncClient) -> None:
    cursor, ids, pages = None, list[int](), 0
    while pages == 0 or cursor:
        page = (await api.get("/api/v1/events", params={"cursor": cursor} if cursor else None)).json()
        ids += [event["id"] for event in page["events"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert pages == 4
    assert ids == list(range(1, 36))


async def test_flaky_fails_once_a_page_until_reset(api: httpx.AsyncClient) -> None:
    async def status(page: int) -> int:
        return (await api.get("/api/v1/flaky", params={"page": page, "fail_on": "2"})).status_code

    assert [await status(page) for page in (1, 2, 2, 3)] == [200, 500, 200, 200]
    assert (await api.post("/api/v1/flaky/reset")).json()["status"] == "reset"
    assert await status(2) == 500


@pytest.mark.parametrize(
    ("kind", "status", "retry_after"),
    [
        ("429", 429, "7"),
        ("503", 503, "7"),
        ("500", 500, None),
        ("auth", 401, None),
        ("403", 403, None),
        ("404", 404, None),
        ("none", 200, None),
    ],
)
async def test_error_responses(api: httpx.AsyncClient, kind: str, status: int, retry_after: str | None) -> None:
    answer = await api.get("/api/v1/errors", params={"error_type": kind, "retry_after": 7})
    assert answer.status_code == status
    assert answer.headers.get("Retry-After") == retry_after


async def test_rate_limit_over_one_second(api: httpx.AsyncClient) -> None:
    answers = [await api.get("/api/v1/rate-limited") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]


async def test_pages_of_the_requested_size(api: httpx.AsyncClient) -> None:
    page = (await api.get("/api/v1/heavy", params={"page": 10, "payload_kb": 2})).json()
    assert page["paging"] == {"hasMore": False, "page": 10, "pageSize": 10, "total": 100}
    assert {len(item["payload"]) for item in page["data"]} == {2048}


async def test_the_concurrency_probe_counts_overlapping_calls(api: httpx.AsyncClient) -> None:
    probe = {"delay_seconds": 0.05}
    await asyncio.gather(*(api.get("/api/v1/concurrency/probe", params=probe) for _ in range(3)))
    stats = (await api.get("/api/v1/concurrency/stats")).json()
    figures = {key: stats[key] for key in ("started", "completed", "active", "max_active")}
    assert figures == {"started": 3, "completed": 3, "active": 0, "max_active": 3}
    assert len(stats["recent_events"]) == 6


@pytest.mark.parametrize(("mode", "refs"), [("linked", [9]), ("windowed", [8, 9]), ("expanded", list(range(1, 10)))])
async def test_the_reference_chain(api: httpx.AsyncClient, mode: str, refs: list[int]) -> None:
    record = (await api.get("/api/v1/reference-chain/detail/10", params={"ref_mode": mode})).json()
    assert record["refs"] == refs
    items = (await api.get("/api/v1/reference-chain/items", params={"page": 16})).json()
    assert len(items["data"]) == 382 - 15 * 25


@pytest.mark.parametrize("kind", ["assessments", "conditions", "medications", "vital_signs"])
async def test_a_patient_has_two_to_five_pages(api: httpx.AsyncClient, kind: str) -> None:
    for patient in range(1, 9):
        query: dict[str, Any] = {"patientId": patient, "page": 1, "pageSize": 1}
        total = (await api.get(f"/api/v1/patient/{kind}", params=query)).json()["paging"]["total"]
        last = await api.get(f"/api/v1/patient/{kind}", params=query | {"page": total})
        assert 2 <= total <= 5
        assert last.json()["paging"]["hasMore"] is False


async def test_calls_are_counted_by_path_and_query(api: httpx.AsyncClient) -> None:
    for page in (1, 1, 2):
        await api.get("/api/v1/assessments", params={"page": page})
    calls = (await api.get("/__calls")).json()
    assert calls == {
        "total": 3,
        "calls": {"/api/v1/assessments": {"total": 3, "queries": {"page=1": 2, "page=2": 1}}},
    }
    await api.post("/__calls/reset")
    assert (await api.get("/__calls")).json() == {"total": 0, "calls": {}}


async def test_a_wrong_parameter_is_named(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/v1/assessments", params={"page": "x"})
    assert (answer.status_code, answer.json()) == (422, {"detail": "page must be an integer, not 'x'"})
