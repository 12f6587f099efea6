"""All endpoints in one application; every call to ``build_app`` starts with empty counters."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from dev.testapi import load, pages
from dev.testapi.calls import Calls
from dev.testapi.faults import Faults
from dev.testapi.load import Concurrency
from dev.testapi.patients import Patients

__all__ = ["build_app"]


def _error(_request: Request, error: Exception) -> Response:
    """Errors are JSON: {detail}."""
    if not isinstance(error, HTTPException):
        raise error
    return JSONResponse({"detail": error.detail}, error.status_code, headers=error.headers)


def build_app() -> ASGIApp:
    """The service, with its call counters around it."""
    calls = Calls()
    routes = [
        *pages.ROUTES,
        *load.HEAVY_ROUTES,
        *Faults().routes(),
        *Concurrency().routes(),
        *Patients().routes(),
        *calls.routes(),
    ]
    return calls.counting(Starlette(routes=routes, exception_handlers={HTTPException: _error}))
