"""Made-up patient records behind a rate limit: slow pages, five kinds of data, assessments by id.

A patient's number decides how many pages there are (2 to 5), so the same request always has the same response.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dev.testapi.faults import Window
from dev.testapi.pages import PAGE
from dev.testapi.query import number, real, required_text

__all__ = ["Patients"]

KINDS = ("assessments", "conditions", "medications", "vital_signs", "demographics")


def _setting(name: str, default: float) -> float:
    return float(os.environ.get(name, default))


def _patient(raw_value: str) -> int:
    """The number of a patient: ``7`` or ``P-0007``."""
    try:
        return int(raw_value.removeprefix("P-"))
    except ValueError:
        raise HTTPException(422, f"patient ids are integers, not {raw_value!r}") from None


def _pages(patient: int) -> int:
    return 2 + patient % 4


def _records(kind: str, patient: int, page: int, size: int) -> list[dict[str, Any]]:
    return [
        {"id": f"{kind}-{patient}-{page}-{n}", "patientId": patient, "type": kind, "value": f"{kind} {n}"}
        for n in range(1, size + 1)
    ]


def _kind_page(kind: str, patient: int, page: int, size: int) -> dict[str, Any]:
    """One page of a patient's data; ``total`` counts pages."""
    pages = 1 if kind == "demographics" else _pages(patient)
    return {
        "patientId": patient,
        "data": _records(kind, patient, page, size) if page <= pages else [],
        "paging": {"hasMore": page < pages, "page": page, "pageSize": size, "total": pages},
    }


class Patients:
    """The endpoints of one clinic, sharing a rate limit."""

    def __init__(self) -> None:
        self._records_window, self._window = Window(), Window()

    def _admit(self) -> None:
        if not self._window.admits(int(_setting("PFT_RATE_LIMIT", 50))):
            raise HTTPException(429, "Rate limit exceeded", headers={"Retry-After": "1"})

    async def patient_records(self, request: Request) -> JSONResponse:
        """A slow, heavy page of a patient's records."""
        patient = _patient(required_text(request, "patientId"))
        limit = number(request, "rate_limit", int(_setting("PATIENT_RECORDS_RATE_LIMIT", 50)), minimum=1)
        if not self._records_window.admits(limit):
            raise HTTPException(429, "Rate limit exceeded", headers={"Retry-After": "1"})
        low = real(request, "min_delay", _setting("PATIENT_RECORDS_MIN_DELAY", 2), maximum=300)
        high = real(request, "max_delay", _setting("PATIENT_RECORDS_MAX_DELAY", 4), maximum=300)
        await asyncio.sleep(random.uniform(low, max(low, high)))
        page, size = number(request, "page", 1, minimum=1), number(request, "pageSize", PAGE, minimum=1)
        weight = number(request, "payload_kb", int(_setting("PATIENT_RECORDS_PAYLOAD_KB", 100)))
        body = _kind_page("records", patient, page, size)
        body |= {"entry": body["data"], "meta": {"page": page, "totalPages": body["paging"]["total"]}}
        return JSONResponse({**body, "payload": random.randbytes(weight * 512).hex()})

    async def kind(self, request: Request) -> JSONResponse:
        """A page of one kind of a patient's data."""
        kind = request.path_params["kind"]
        if kind not in KINDS:
            raise HTTPException(404, f"no such data; there are {', '.join(KINDS)}")
        self._admit()
        patient = _patient(required_text(request, "patientId"))
        page, size = number(request, "page", 1, minimum=1), number(request, "pageSize", PAGE, minimum=1)
        return JSONResponse(_kind_page(kind, patient, page, size))

    async def assessment_ids(self, request: Request) -> JSONResponse:
        """The ids of a patient's assessments."""
        self._admit()
        patient = _patient(required_text(request, "patientId"))
        ids = [f"{patient}-{n}" for n in range(1, _pages(patient) + 1)]
        return JSONResponse({"patientId": patient, "data": [{"assessmentId": i} for i in ids]})

    async def assessment(self, request: Request) -> JSONResponse:
        """One assessment."""
        self._admit()
        return JSONResponse(_assessment(request.path_params["assessment_id"]))

    async def batch(self, request: Request) -> JSONResponse:
        """First pages of many patients in one response: ``patientIds`` separated by commas."""
        kind = request.path_params["kind"]
        if kind not in KINDS:
            raise HTTPException(404, f"no such data; there are {', '.join(KINDS)}")
        self._admit()
        patients = [_patient(raw_value) for raw_value in required_text(request, "patientIds").split(",")]
        size = number(request, "pageSize", PAGE, minimum=1)
        return JSONResponse({"data": [_kind_page(kind, patient, 1, size) for patient in patients]})

    async def details(self, request: Request) -> JSONResponse:
        """Many assessments in one response: ``assessmentId`` once or separated by commas."""
        self._admit()
        ids = required_text(request, "assessmentId").split(",")
        return JSONResponse({"data": [_assessment(i) for i in ids]})

    def routes(self) -> list[Route]:
        """Where they are served."""
        return [
            Route("/api/v1/patient-records", self.patient_records),
            Route("/api/v1/patient/{kind}", self.kind),
            Route("/api/v1/mds/assessment_ids", self.assessment_ids),
            Route("/api/v1/mds/assessment/{assessment_id}", self.assessment),
            Route("/api/v1/pft/batch/{kind}", self.batch),
            Route("/api/v1/pft/mds/details", self.details),
        ]


def _assessment(assessment_id: str) -> dict[str, Any]:
    return {
        "assessmentId": assessment_id,
        "data": {"status": "completed", "sections": [{"code": c, "score": 1} for c in "ABCD"]},
    }
