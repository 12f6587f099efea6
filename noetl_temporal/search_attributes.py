"""The search attributes of our workflows and schedules."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from noetl_temporal.naming import keyword

__all__ = [
    "EXECUTION_ID",
    "PATH",
    "PAUSED",
    "SCHEDULE",
    "SEARCH_ATTRIBUTES",
    "STATUS",
    "STEP",
    "VERSION",
    "attributes_of_run",
    "attributes_of_schedule",
]

PATH = SearchAttributeKey.for_keyword("NoetlPath")
VERSION = SearchAttributeKey.for_keyword("NoetlVersion")
STEP = SearchAttributeKey.for_keyword("NoetlStep")
STATUS = SearchAttributeKey.for_keyword("NoetlStatus")
EXECUTION_ID = SearchAttributeKey.for_int("NoetlExecutionId")
SEARCH_ATTRIBUTES = {key.name: "Keyword" for key in (PATH, VERSION, STEP, STATUS)} | {EXECUTION_ID.name: "Int"}
"""The types of the attributes that must be registered in Temporal, by name, as its command line calls them."""

PAUSED = SearchAttributeKey.for_keyword_list("TemporalPauseInfo")
"""Set by Temporal on workflows that are paused in Temporal itself, or have such activities."""

SCHEDULE = SearchAttributeKey.for_keyword("TemporalScheduledById")
"""Set by Temporal on the runs of a schedule: the name of the schedule."""


def attributes_of_run(path: str, version: str, execution_id: int) -> TypedSearchAttributes:
    """Return the search attributes of a new run. ``execution_id`` is 0 in a schedule: each of its runs sets its own."""
    playbook_attributes: list[SearchAttributePair[str] | SearchAttributePair[int]] = [
        SearchAttributePair(PATH, keyword(path)),
        SearchAttributePair(VERSION, keyword(version)),
        SearchAttributePair(STATUS, "running"),
    ]
    run_attributes = [SearchAttributePair(EXECUTION_ID, execution_id)] if execution_id else []
    return TypedSearchAttributes([*playbook_attributes, *run_attributes])


def attributes_of_schedule(path: str, version: int) -> TypedSearchAttributes:
    """Return the search attributes of a schedule; ``version`` is that of the catalog."""
    return TypedSearchAttributes([SearchAttributePair(PATH, keyword(path)), SearchAttributePair(VERSION, str(version))])
