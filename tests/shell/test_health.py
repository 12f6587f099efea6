"""What a worker answers while Temporal is unreachable."""

from __future__ import annotations

import asyncio
from functools import partial

import httpx
from temporalio.client import Client

from noetl_temporal.mirror.path_labels import OTHER_PATHS, PathLabels
from noetl_temporal.observability.health import free_address, scrape_metrics, serve_health


async def _get(port: int, path: str) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.get(f"http://127.0.0.1:{port}{path}", timeout=20)


async def test_it_is_alive_but_not_ready_without_temporal() -> None:
    client = await Client.connect(free_address(), lazy=True)
    nowhere = partial(scrape_metrics, free_address())
    async with serve_health(("127.0.0.1", 0), client, lambda: "all tools", nowhere) as port:
        alive, ready, metrics = await asyncio.gather(*(_get(port, p) for p in ("/healthz", "/readyz", "/metrics")))
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    assert (ready.status_code, ready.json()["status"], ready.json()["serves"]) == (503, "disconnected", "all tools")
    assert metrics.status_code == 503  # no exporter is there


def test_a_process_exports_a_limited_number_of_paths() -> None:
    labels = PathLabels(limit=2)
    assert [labels.label(path) for path in ("a", "b", "a", "c", "b")] == ["a", "b", "a", OTHER_PATHS, "b"]
