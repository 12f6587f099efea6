"""A server that answers while a block runs."""

from __future__ import annotations

import socket
from http import HTTPStatus

import httpx
import pytest

from noetl_temporal.observability.http_listener import QuietHandler, listening


class Answering(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802
        self.send_response(HTTPStatus.NO_CONTENT)
        self.end_headers()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1"), ("::1", "http://[::1]")])
async def test_it_answers_on_a_free_port_until_the_block_ends(host: str, url: str) -> None:
    if ":" in host and not _has_ipv6():
        pytest.skip("there is no IPv6 here")
    async with httpx.AsyncClient() as http:
        async with listening(Answering, host, 0) as (bound_host, port):
            answer = await http.get(f"{url}:{port}", timeout=20)
        assert (answer.status_code, answer.headers["Server"], bound_host) == (204, "noetl", host)
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{url}:{port}", timeout=20)


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with listening(Answering, "127.0.0.1", 0) as (_, port):
        with pytest.raises(OSError, match="in use"):
            async with listening(Answering, "127.0.0.1", port):
                pass
