"""Fetches a script by http or from an object store, through the guards of the http tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from noetl_activities.credentials import CredentialSource
from noetl_activities.errors import CredentialError, RefusedError, ToolError
from noetl_activities.http.exchange import exchange
from noetl_activities.http.request import credential_headers
from noetl_activities.network.guarded_client import guarded_client
from noetl_activities.object_store import StoredObject, error_code, object_request
from noetl_activities.tool import Credential
from noetl_activities.variables import HTTP_ALLOW_VARIABLE
from noetl_compiler.language.scripts import OBJECT_STORES
from noetl_compiler.script_files import ScriptError
from noetl_compiler.script_requests import Download, redacted_address

__all__ = ["fetch_script"]

_FETCHED_BY = "scripts are fetched by the process that submits the playbook"


def fetch_script(download: Download, source: CredentialSource) -> bytes:
    """Return the script. Raises ScriptError. Must not be called in a thread with a running event loop."""
    public_url = redacted_address(download.url)
    try:
        url, headers = _build_request(download, source)
    except CredentialError as error:
        raise ScriptError(
            f"cannot fetch {public_url}: {error}", f"{_FETCHED_BY}, with the credentials of that process"
        ) from None
    except ToolError as error:
        raise ScriptError(f"cannot fetch {public_url}: {error}") from None
    return asyncio.run(_fetch(public_url, url, headers, download.timeout))


def _build_request(download: Download, source: CredentialSource) -> tuple[str, Mapping[str, str]]:
    """Return the URL and the headers of the request. Raises ToolError."""
    credential: Credential = source.find(download.auth) if download.auth else {}
    if download.url.partition("://")[0] not in OBJECT_STORES.values():
        return download.url, {**dict(download.headers), **credential_headers(credential)}
    return object_request("GET", StoredObject.parse(download.url), credential, download.region, download.endpoint)


async def _fetch(public_url: str, url: str, headers: Mapping[str, str], seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds), guarded_client(httpx.Timeout(seconds)) as client:
            request = client.build_request("GET", url, headers=headers)
            response, body = await exchange(client, request, follow_redirects=True)
    except TimeoutError:
        raise ScriptError(f"cannot fetch {public_url}: no complete response after {seconds:g} s") from None
    except RefusedError as error:
        raise ScriptError(
            f"cannot fetch {public_url}: {error}", f"{_FETCHED_BY}: set {HTTP_ALLOW_VARIABLE} there"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, ToolError, ValueError) as error:
        raise ScriptError(f"cannot fetch {public_url}: {str(error) or type(error).__name__}") from error
    if not response.is_success:
        status_line = f"{response.status_code} {response.reason_phrase}".rstrip()
        raise ScriptError(f"cannot fetch {public_url}: it returned {status_line}{error_code(body)}")
    return bytes(body)
