"""A server compatible with S3 (moto), on loopback, that also checks who asks: moto checks no signed addresses.

The signatures are computed with botocore, which is not what signs them in the code under test.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import httpx
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.moto_server.werkzeug_app import (  # pyright: ignore[reportMissingTypeStubs]
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

__all__ = ["BUCKET", "KEYS", "PUBLIC", "TOKEN", "ObjectStore", "serve"]

KEYS = {"access_key_id": "AKIDNOETL", "secret_access_key": "store/hush+hush"}
TOKEN = "google-hush-hush"
BUCKET = "scripts"
PUBLIC = "public"
_OF_AWS = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request"
"""What moto needs to see, and does not check."""


class ObjectStore:
    """``url`` is its address. It has the buckets BUCKET and PUBLIC, of which everybody may read the second."""

    def __init__(self) -> None:
        self._moto: Any = DomainDispatcherApplication(create_backend_app)
        self.requests: list[str] = []
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line for each request
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def store(self, key: str, content: bytes, bucket: str = BUCKET) -> None:
        """Put an object there, whoever may."""
        self._admin("PUT", f"{bucket}/{key}", content)

    def stored_object(self, key: str, bucket: str = BUCKET) -> bytes:
        """The content of an object."""
        return self._admin("GET", f"{bucket}/{key}")

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _admin(self, method: str, path: str, content: bytes = b"") -> bytes:
        login = {"Authorization": f"Bearer {TOKEN}"}
        response = httpx.request(method, f"{self.url}/{path}", content=content, headers=login, trust_env=False)
        return response.raise_for_status().content

    def create(self, bucket: str) -> None:
        self._admin("PUT", bucket)

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        refusal = self._refusal(environ)
        if refusal is None:
            environ["HTTP_AUTHORIZATION"] = _OF_AWS
            answer: Iterable[bytes] = self._moto(environ, start_response)
            return answer
        start_response("403 Forbidden", [("Content-Type", "application/xml")])
        return [f"<Error><Code>{refusal}</Code></Error>".encode()]

    def _refusal(self, environ: WSGIEnvironment) -> str | None:
        path, _, query = str(environ["RAW_URI"]).partition("?")
        fields = dict(parse_qsl(query, keep_blank_values=True))
        if environ.get("HTTP_AUTHORIZATION") == f"Bearer {TOKEN}":
            return None
        if not fields:
            may_read = environ["REQUEST_METHOD"] == "GET" and path.startswith(f"/{PUBLIC}/")
            return None if may_read else "AccessDenied"
        signature = fields.pop("X-Amz-Signature", "")
        key_id, _, region, *_ = fields["X-Amz-Credential"].split("/")
        if key_id != KEYS["access_key_id"]:
            return "InvalidAccessKeyId"
        auth = S3SigV4QueryAuth(Credentials(*KEYS.values()), "s3", region, int(fields["X-Amz-Expires"]))
        url = f"http://{environ['HTTP_HOST']}{path}?{urlencode(fields)}"
        request = AWSRequest(method=environ["REQUEST_METHOD"], url=url)
        request.context["timestamp"] = fields["X-Amz-Date"]
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return None if signature == auth.signature(text, request) else "SignatureDoesNotMatch"


@contextmanager
def serve() -> Generator[ObjectStore]:
    """A store with empty buckets."""
    store = ObjectStore()
    thread = Thread(target=store.run, daemon=True)
    thread.start()
    try:
        for bucket in (BUCKET, PUBLIC):
            store.create(bucket)
        yield store
    finally:
        store.stop()
        thread.join()
