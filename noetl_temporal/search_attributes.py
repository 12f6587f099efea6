"""The search attributes of our workflows."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

__all__ = ["EXECUTION_ID", "PATH", "SEARCH_ATTRIBUTES", "STATUS", "STEP", "VERSION"]

PATH = SearchAttributeKey.for_keyword("NoetlPath")
VERSION = SearchAttributeKey.for_keyword("NoetlVersion")
STEP = SearchAttributeKey.for_keyword("NoetlStep")
STATUS = SearchAttributeKey.for_keyword("NoetlStatus")
EXECUTION_ID = SearchAttributeKey.for_int("NoetlExecutionId")
SEARCH_ATTRIBUTES = {key.name: "Keyword" for key in (PATH, VERSION, STEP, STATUS)} | {EXECUTION_ID.name: "Int"}
"""What a Temporal must know, as its command line writes it: name -> type."""
