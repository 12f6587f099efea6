"""The http tool against a real server."""

from __future__ import annotations

import email
import json
import re
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
import pytest

from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http.tool import TOOL
from noetl_activities.outcome import ErrorInfo, Outcome

from .conftest import Context, request

pytestmark = pytest.mark.usefixtures("loopback")


async def get(url: str, **config: Any) -> Outcome:
    return await TOOL.run(request("http", url=url, **config), Context())


def error_of(outcome: Outcome) -> ErrorInfo:
    assert outcome.error is not None
    return outcome.error


async def test_the_result_has_status_headers_and_parsed_body(web: str) -> None:
    outcome = await get(f"{web}/echo", params={"a": 1, "b": [1, 2], "c": None})
    assert outcome.result["status_code"] == 200
    assert outcome.result["data"]["query"] == {"a": "1", "b": "2"}
    assert outcome.result["headers"]["content-type"] == "application/json"
    assert (outcome.http or {})["status"] == 200


async def test_response_type_selects_text_or_json(web: str) -> None:
    outcome = await get(f"{web}/echo", params={"a": 1}, response_type="text")
    assert json.loads(outcome.result["data"])["query"] == {"a": "1"}
    assert (await get(f"{web}/echo", response_type="json")).result["data"]["query"] == {}
    with pytest.raises(ConfigError, match="response_type is 'xml': write json or text"):
        await get(f"{web}/echo", response_type="xml")


@pytest.mark.parametrize("value", ["ture", "maybe", "", "/etc/ssl/certs/ca-certificates.crt", [], 7])
async def test_a_value_that_is_not_a_boolean_disables_no_check(web: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"verify_ssl is .*: write true or false"):
        await get(f"{web}/echo", verify_ssl=value)


@pytest.mark.parametrize(("value", "status"), [(None, "error"), ("yes", "error"), ("off", "ok"), (False, "ok")])
async def test_an_untrusted_certificate_is_refused_unless_the_check_is_off(https: str, value: Any, status: str) -> None:
    assert (await get(f"{https}/echo", verify_ssl=value)).status == status


@pytest.mark.parametrize(
    ("config", "query", "body"),
    [
        ({"method": "POST", "payload": {"x": 1}}, {}, {"x": 1}),
        ({"method": "POST", "json": [1]}, {}, [1]),
        ({"method": "POST", "data": {"x": 1}}, {}, {"x": 1}),
        ({"method": "GET", "data": {"x": 1}}, {"x": "1"}, None),
        ({"method": "POST", "data": {"query": {"q": 2}, "body": {"x": 1}}}, {"q": "2"}, {"x": 1}),
        ({"method": "POST", "query": {"q": 2}, "body": {"x": 1}}, {"q": "2"}, {"x": 1}),
    ],
)
async def test_data_is_sent_in_the_query_or_the_body(
    web: str, config: dict[str, Any], query: dict[str, str], body: Any
) -> None:
    result = (await get(f"{web}/echo", **config)).result["data"]
    assert result["query"] == query
    assert (json.loads(result["body"]) if result["body"] else None) == body


@pytest.mark.parametrize(
    ("config", "content_type"),
    [
        ({"form": {"a": "b c"}}, "application/x-www-form-urlencoded"),
        (
            {"payload": {"a": "b c"}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
            "application/x-www",
        ),
        ({"payload": {"a": "b c"}, "headers": {"content-type": "multipart/form-data"}}, "multipart/form-data; bound"),
    ],
)
async def test_forms_are_read_as_forms(web: str, config: dict[str, Any], content_type: str) -> None:
    result = (await get(f"{web}/echo", method="POST", **config)).result["data"]
    sent = result["headers"]["content-type"]
    assert sent.startswith(content_type)
    assert fields_of(sent, result["body"]) == {"a": "b c"}


def fields_of(content_type: str, body: str) -> dict[str, Any]:
    if not content_type.startswith("multipart"):
        return dict(parse_qsl(body))
    parts = email.message_from_string(f"Content-Type: {content_type}\r\n\r\n{body}").get_payload()
    return {part.get_param("name", header="content-disposition"): part.get_payload() for part in cast("Any", parts)}


async def test_params_join_the_query_of_the_url(web: str) -> None:
    result = (await get(f"{web}/echo?a=1&b=2", params={"b": 3})).result["data"]
    assert result["query"] == {"a": "1", "b": "3"}


async def test_forms_and_texts_go_as_they_are(web: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    as_form = await get(f"{web}/echo", method="POST", headers=form, payload={"a": "b c"})
    as_text = await get(f"{web}/echo", method="POST", body="raw")
    assert [answer.result["data"]["body"] for answer in (as_form, as_text)] == ["a=b+c", "raw"]


@pytest.mark.parametrize(
    ("credential", "header", "value"),
    [
        ({"type": "bearer", "token": "t"}, "authorization", "Bearer t"),
        ({"type": "basic", "username": "u", "password": "p"}, "authorization", "Basic dTpw"),
        ({"type": "api_key", "api_key": "k"}, "x-api-key", "k"),
        ({"type": "api_key", "key": "k", "header_name": "X-Mine"}, "x-mine", "k"),
    ],
)
async def test_credentials_become_headers(web: str, credential: dict[str, str], header: str, value: str) -> None:
    own_headers = {header: "is replaced"}
    outcome = await TOOL.run(request("http", "c", url=f"{web}/echo", headers=own_headers), Context(c=credential))
    assert outcome.result["data"]["headers"][header] == value


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (400, "client_error", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "not_found", False),
        (408, "client_error", True),
        (429, "rate_limit", True),
        (503, "server_error", True),
    ],
)
async def test_any_status_but_2xx_is_an_error(web: str, code: int, kind: str, retryable: bool) -> None:
    outcome = await get(f"{web}/status/{code}?after=7")
    error = error_of(outcome)
    assert outcome.status == "error"
    assert (error.kind, error.code, error.status) == (kind, f"HTTP_{code}", code)
    assert (error.retryable, error.retry_after) == (retryable, 7)
    assert (outcome.http or {})["status"] == outcome.result["status_code"] == code
    assert (outcome.http or {})["headers"]["retry-after"] == "7"
    assert "because" in str(outcome.result["data"])
    assert "?" not in error.message, "a query may hold what nobody should read"


async def test_a_call_sends_its_key_in_the_header_that_is_named(web: str) -> None:
    plain = msgspec.structs.replace(request("http", url=f"{web}/echo", headers={"x-call": "own"}), key="1/pay/0/a")
    named_request = msgspec.structs.replace(plain, idempotency_header="X-Call")
    second_page = msgspec.structs.replace(named_request, repetition=2)
    keys = [
        (await TOOL.run(case, Context())).result["data"]["headers"]["x-call"]
        for case in (plain, named_request, named_request, second_page)
    ]
    assert keys[0] == "own"
    assert keys[1] == keys[2] != keys[3]
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys[1:])


async def test_the_body_of_an_error_is_bounded(web: str) -> None:
    outcome = await get(f"{web}/status/500?times=3000000")
    assert (error_of(outcome).status, len(outcome.result["data"])) == (500, 10_000)


async def test_retry_after_may_be_a_date(web: str) -> None:
    outcome = await get(f"{web}/status/503?after=Wed, 21 Oct 2015 07:28:00 GMT")
    assert error_of(outcome).retry_after == 0


async def test_timeouts_and_dead_ports_are_retryable_errors(web: str) -> None:
    late_outcome = await TOOL.run(request("http", limit=0.2, url=f"{web}/slow"), Context())
    dead = await get("http://127.0.0.1:1/")
    assert [error_of(outcome).kind for outcome in (late_outcome, dead)] == ["timeout", "connection"]
    assert error_of(late_outcome).retryable
    assert error_of(dead).retryable


@pytest.mark.parametrize(("kind", "expected"), [("text", "plain"), ("none", None), ("bytes", {"base64": "/wA="})])
async def test_bodies_that_are_not_json(web: str, kind: str, expected: Any) -> None:
    assert (await get(f"{web}/data/{kind}")).result["data"] == expected


async def test_an_endless_body_is_refused(web: str) -> None:
    with pytest.raises(ConfigError, match="over 16 MB"):
        await get(f"{web}/large")


@pytest.mark.parametrize("config", [{"headers": {"a": "b\nc"}}, {"method": "G ET"}, {"params": 5}, {"headers": []}])
async def test_a_request_that_cannot_be_sent_is_a_config_error(web: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await get(f"{web}/echo", **config)


async def test_a_body_that_cannot_be_read_is_an_error(web: str) -> None:
    error = error_of(await get(f"{web}/data/broken"))
    assert (error.kind, error.retryable) == ("server_error", True)


@pytest.mark.parametrize(
    "credential",
    [{"type": "api_key", "api_key": "hush"}, {"type": "bearer", "token": "hush"}],
)
async def test_a_redirect_to_another_server_takes_no_credential_along(web: str, credential: dict[str, str]) -> None:
    other = web.replace("127.0.0.1", "localhost")
    for target, is_sent in [(f"{web}/echo", True), ("/echo", True), (f"{other}/echo", False)]:
        call = request("http", "c", url=f"{web}/away?to={target}", follow_redirects=True)
        outcome = await TOOL.run(call, Context(c=credential))
        assert ("hush" in json.dumps(outcome.result["data"]["headers"])) is is_sent
        assert outcome.result["url"] == (f"{web}{target}" if target == "/echo" else target)


async def test_redirects_are_followed_only_if_enabled_and_checked_again(web: str) -> None:
    error = error_of(await get(f"{web}/away?to=/echo?token=hush"))
    assert error.status == 307
    assert error.message.endswith(f"a redirect to {web}/echo: set follow_redirects: true to follow it")
    assert (await get(f"{web}/away?to={web}/echo", follow_redirects=True)).status == "ok"
    with pytest.raises(RefusedError, match="metadata"):
        await get(f"{web}/away?to=http://169.254.169.254/latest", follow_redirects=True)


@pytest.mark.parametrize(
    ("query", "shown_url"),
    [
        ("?api_key=k1&x=1", "?api_key=***&x=1"),
        ("?x=1&access_token=t%20t", "?x=1&access_token=***"),
        ("?api_key=&x=1", "?api_key=&x=1"),
        ("?page_token=a&nextToken=b&key=c", "?page_token=a&nextToken=b&key=c"),
    ],
)
async def test_the_address_of_a_response_shows_no_secret(web: str, query: str, shown_url: str) -> None:
    assert (await get(f"{web}/echo{query}")).result["url"] == f"{web}/echo{shown_url}"
    url = web.replace("http://", "http://ada:hush@")
    assert (await get(f"{url}/echo{query}")).result["url"] == f"{url}/echo{shown_url}".replace("hush", "***")


async def test_secrets_in_params_are_masked_in_the_address(web: str) -> None:
    outcome = await get(f"{web}/echo", params={"api_key": "k1", "page": 2})
    assert outcome.result["url"] == f"{web}/echo?api_key=***&page=2"


@pytest.mark.parametrize("url", ["", "ftp://example.org/x", "file:///etc/passwd", "nonsense", "http://[::1"])
async def test_other_urls_than_http_are_refused(url: str) -> None:
    with pytest.raises((ConfigError, RefusedError)):
        await get(url)


async def test_endless_redirects_are_ended(web: str) -> None:
    error = error_of(await get(f"{web}/round", follow_redirects=True))
    assert (error.kind, error.retryable) == ("client_error", False)


async def test_the_name_is_kept_over_relative_redirects(web: str) -> None:
    url = web.replace("127.0.0.1", "localhost")
    outcome = await get(f"{url}/away?to=/echo", follow_redirects=True)
    assert outcome.result["url"] == f"{url}/echo"
    assert outcome.result["data"]["headers"]["host"] == url.removeprefix("http://")
