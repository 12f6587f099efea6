"""Loops and repeated calls nest, with a sink at any level: once an item, once a page, both."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall, ToolReport

from .activity import Activity
from .driver import Run, ok, run_text

TEXT = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: levels}
workflow:
  - step: start
    tool: http
    url: http://api.test/items
    params: {page: 1, of: "{{ city }}"}
    LOOP
    retry:
      on_success:
        while: "{{ response.more }}"
        max_attempts: 3
        next_call: {params: {page: "{{ response.page + 1 }}"}}
        collect: {strategy: append, path: rows, into: pages}
        PAGE
    ITEM
    next: [{step: end}]
  - step: end
"""
LOOP = "loop: {collection: [bern, jena], element: city, mode: sequential}"
PAGE_DATA = '{of: "{{ city }}", page: "{{ response.page }}"}'
PAGE = f"per_iteration: {{sink: {{tool: postgres, auth: pg, table: pages, data: {PAGE_DATA}}}}}"
ITEM = 'sink: {tool: postgres, auth: pg, table: items, data: {of: "{{ city }}", rows: "{{ result }}"}}'
OF_PAGES = [{"of": city, "page": page} for city in ("bern", "jena") for page in (1, 2)]
OF_ITEMS = [{"of": city, "rows": [1, 2]} for city in ("bern", "jena")]


def response(call: ToolCall) -> ToolReport:
    page = call.config["params"]["page"]
    body = {"page": page, "rows": [page], "more": page < 2}
    return ok({"status_code": 200, "headers": {}, "url": "", "elapsed": 0, "data": body})


class Storing:
    """Performs calls, and those that only store."""

    def __init__(self) -> None:
        self.activity = Activity(
            lambda call: ToolReport(call.outcome_to_store) if call.outcome_to_store else response(call)
        )

    def run(self, text: str) -> Run:
        return run_text(text.replace("{{ city }}", "{{ city | default('bern') }}"), self.activity)

    def rows(self, table: str) -> list[Any]:
        return [sink["data"] for sink in self.activity.stored_configs if sink["table"] == table]


@pytest.mark.parametrize(
    ("loop", "page", "item", "pages", "items"),
    [
        (LOOP, PAGE, "", OF_PAGES, []),
        (LOOP, PAGE, ITEM, OF_PAGES, OF_ITEMS),
        ("", PAGE, "", OF_PAGES[:2], []),
        ("", PAGE, ITEM, OF_PAGES[:2], OF_ITEMS[:1]),
    ],
)
def test_a_sink_stores_the_result_of_its_level(
    loop: str, page: str, item: str, pages: list[Any], items: list[Any]
) -> None:
    storing = Storing()
    run = storing.run(TEXT.replace("LOOP", loop).replace("PAGE", page).replace("ITEM", item))
    assert run.finish.status == "completed"
    assert storing.rows("pages") == pages
    assert storing.rows("items") == items
