"""The cookies of one exchange: sent again on redirects to the same origin, and not kept for the next call."""

from __future__ import annotations

import warnings
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from urllib.request import Request

__all__ = ["QuietCookieJar"]


class QuietCookieJar(CookieJar):
    """Ignores a Set-Cookie header that it cannot read.

    Python's own warns of some of them with a traceback, "http.cookiejar bug!", which any server can so write into the
    worker's log: a year of five digits is enough.
    """

    def extract_cookies(self, response: HTTPResponse, request: Request) -> None:
        """See CookieJar."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().extract_cookies(response, request)
