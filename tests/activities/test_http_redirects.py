"""What a request takes along when a server sends it elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dev.attack.raw_server import answering, head, serving
from noetl_activities.errors import RefusedError
from noetl_activities.http.tool import TOOL
from noetl_activities.outcome import Outcome

from .conftest import Context, request

pytestmark = pytest.mark.usefixtures("loopback")

SENT_HEADERS = {
    "Authorization": "Bearer hush",
    "Cookie": "session=hush",
    "Proxy-Authorization": "Basic hush",
    "X-Api-Token": "hush",
    "X-Anything": "hush",
    "Content-Language": "hush",
    "Accept": "text/x-own",
    "Accept-Language": "no",
    "User-Agent": "own",
}
SAFE = {"accept": "text/x-own", "accept-language": "no", "user-agent": "own", "accept-encoding": "gzip, deflate"}


async def follow_redirect(web: str, to: str, code: int = 307, **config: Any) -> Outcome:
    call = request("http", "c", url=f"{web}/away", follow_redirects=True, headers=SENT_HEADERS, **config)
    call = msgspec.structs.replace(call, key="1/pay/0/a", idempotency_header="X-Call")
    call.config["params"] = {"to": to, "code": code}
    return await TOOL.run(call, Context(c={"type": "api_key", "api_key": "hush", "header_name": "X-Mine"}))


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_to_another_origin_only_safe_headers_go_along(web: str, code: int) -> None:
    outcome = await follow_redirect(web, web.replace("127.0.0.1", "localhost") + "/echo", code)
    received_headers = outcome.result["data"]["headers"]
    assert {name: value for name, value in received_headers.items() if name not in ("host", "connection")} == SAFE


async def test_to_the_same_origin_all_go_along(web: str) -> None:
    """The control, but for Cookie, which httpx sets from the jar of the call."""
    received_headers = (await follow_redirect(web, f"{web}/echo")).result["data"]["headers"]
    assert {name for name in SENT_HEADERS if name.lower() not in received_headers} == {"Cookie"}
    assert {"x-mine", "x-call"} <= set(received_headers)


async def test_another_port_is_another_origin_and_has_no_cookie_of_the_first(web: str) -> None:
    to_web = f"Location: {web}/echo"
    async with serving(answering(b"", to_web, "Set-Cookie: session=hush; Path=/", status="302 Found")) as other:
        call = request("http", "c", url=other, follow_redirects=True)
        received_headers = (await TOOL.run(call, Context(c={"type": "bearer", "token": "hush"}))).result["data"][
            "headers"
        ]
    assert not {"cookie", "authorization"} & set(received_headers)


async def test_a_redirect_back_to_the_first_origin_restores_nothing(web: str) -> None:
    away = web.replace("127.0.0.1", "localhost")
    outcome = await follow_redirect(web, f"{away}/away?to={web}/echo")
    assert outcome.result["url"] == f"{web}/echo"
    assert "hush" not in str(outcome.result["data"]["headers"])


@pytest.mark.parametrize(("code", "method"), [(307, "POST"), (308, "PUT"), (301, "PUT"), (307, "DELETE")])
async def test_requests_with_a_body_are_not_redirected_to_another_origin(web: str, code: int, method: str) -> None:
    other = web.replace("127.0.0.1", "localhost")
    with pytest.raises(RefusedError, match=rf"{method} was redirected to another server \({other}\)") as refusal:
        await follow_redirect(web, f"{other}/echo?key=hush", code, method=method, body="hush")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("code", [301, 302, 303])
async def test_a_post_that_becomes_a_get_takes_no_body_along(web: str, code: int) -> None:
    outcome = await follow_redirect(
        web, web.replace("127.0.0.1", "localhost") + "/echo", code, method="POST", body="hush"
    )
    assert outcome.result["data"]["method"] == "GET"
    assert "hush" not in str(outcome.result["data"])


async def test_a_get_with_a_body_takes_none_along(web: str) -> None:
    outcome = await follow_redirect(web, web.replace("127.0.0.1", "localhost") + "/echo", body="hush")
    assert outcome.result["data"]["body"] == ""
    same = await follow_redirect(web, f"{web}/echo", body="hush")
    assert same.result["data"]["body"] == "hush", "the control"


@pytest.mark.parametrize(
    "location",
    [
        "http://[::1",
        "http://a:99999/",
        "//",
        "http://" + "ü" * 300,
        "http://" + "a" * 66_000,
        "\\\\x",
        "http:///x",
        "?",
    ],
)
async def test_an_invalid_location_is_a_short_error(location: str) -> None:
    async def answer(writer: Any) -> None:
        writer.write(head(status="302 Found")[:-2] + b"Location: " + location.encode() + b"\r\n\r\n")

    async with serving(answer) as url:
        outcome = await TOOL.run(request("http", url=url, follow_redirects=True), Context())
    assert outcome.error is not None
    assert outcome.error.kind in ("connection", "client_error", "dns")
    assert len(outcome.error.message) < 500
