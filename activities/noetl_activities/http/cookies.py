"""The cookies of one exchange: sent on redirects to the same origin, and not kept for the next call."""

from __future__ import annotations

import warnings
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from urllib.request import Request

__all__ = ["QuietCookieJar"]


class QuietCookieJar(CookieJar):
    """Silently ignores invalid Set-Cookie headers.

    Python's cookie jar warns about some of them, such as a year with five digits, with a traceback ("http.cookiejar
    bug!"), so any server could fill the worker's log.
    """

    def extract_cookies(self, response: HTTPResponse, request: Request) -> None:
        """See CookieJar."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().extract_cookies(response, request)
