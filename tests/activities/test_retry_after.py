"""How long a server may have a call wait."""

from __future__ import annotations

import datetime
import email.utils

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_activities.retry_after import MAX_RETRY_AFTER, retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("0", 0),
        (" 7 ", 7),
        ("1.5", 1.5),
        ("-5", None),
        ("-0", None),
        ("1e9", None),
        ("inf", None),
        ("nan", None),
        ("99999999", MAX_RETRY_AFTER),
        ("9" * 90, MAX_RETRY_AFTER),
        ("9" * 100_000, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0),
        ("Wed, 21 Oct 2015 07:28:00", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59 -0000", MAX_RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59", MAX_RETRY_AFTER),
        ("Fri, 31 Dec 9999 23:59:59 -2359", MAX_RETRY_AFTER),
        ("Sat, 01 Jan 0001 00:00:00 +2359", 0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +999999999999", None),
    ],
)
def test_retry_after_values(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_a_date_is_a_number_of_seconds_from_now() -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1_000)
    for date in (
        email.utils.format_datetime(soon, usegmt=True),
        email.utils.format_datetime(soon.replace(tzinfo=None)),
    ):
        assert 900 < (retry_after(date) or 0) <= 1_000


@given(st.text() | st.text("0123456789 ,:+-.GMTWedOct", max_size=40))
@example("Wed, 21 Oct 20155 07:28:00 GMT")
@example("21 Oct 2015 07:28:60 +2400")
@example(" , ")
def test_no_header_fails_the_call(header: str) -> None:
    seconds = retry_after(header)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER
