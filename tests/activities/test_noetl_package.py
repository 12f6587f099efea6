"""What python tasks of older playbooks import of NoETL, in a real process each time."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_activities.errors import CredentialError
from noetl_activities.outcome import Outcome
from noetl_activities.python.tool import TOOL
from tests.activities.conftest import Context, request

IMPORT = "from noetl.worker.vars_cache import VarsCache\n"


async def run(code: str, *, auth: Any = None, credentials: dict[str, Any] | None = None, **config: Any) -> Outcome:
    return await TOOL.run(request("python", auth, code=code, **config), Context(**(credentials or {})))


async def test_variables_are_read_written_and_deleted() -> None:
    code = f"""
async def main():
    {IMPORT}
    before = await VarsCache.get_all_vars(7)
    counter = await VarsCache.get_cached("counter", 7)
    facts = dict(execution_id=7, var_type="computed", source_step="a")
    await VarsCache.set_cached(var_name="status", var_value="ready", **facts)
    count = await VarsCache.set_multiple(variables={{"one": 1, "many": [1, {{"a": 2}}]}}, execution_id=7)
    gone = [await VarsCache.delete_var("counter", 7), await VarsCache.delete_var("counter", 7)]
    known = await VarsCache.get_all_vars_with_metadata(7)
    return [before, counter, count, gone, await VarsCache.get_cached("counter", 7), known["status"]]
"""
    outcome = await run(code, vars={"counter": 5, "gone": None})
    assert outcome.error is None
    facts = {"type": "user_defined", "source_step": None}
    assert outcome.result == [
        {"counter": 5},
        {"value": 5, **facts, "access_count": 1},
        2,
        [True, False],
        None,
        {"value": "ready", "type": "computed", "source_step": "a", "access_count": 0},
    ]
    assert outcome.set == {"status": "ready", "one": 1, "many": [1, {"a": 2}], "counter": None}


@pytest.mark.parametrize("name", ["_passed", "a.b", "a[]", "", "1a"])
async def test_a_name_that_ctx_cannot_have_is_refused(name: str) -> None:
    code = f"import asyncio\n{IMPORT}asyncio.run(VarsCache.set_cached({name!r}, 1, 7))\nresult = 1"
    outcome = await run(code)
    assert outcome.error is not None
    assert "is not a variable name" in outcome.error.message


@pytest.mark.parametrize("forged_report", ["[]", "{'_passed': 1}", "5", "{'a.b': 1}"])
async def test_a_forged_report_sets_nothing(forged_report: str) -> None:
    answer = f"json.dumps(dict(ok=True, result=1, set={forged_report})).encode()"
    outcome = await run(f"import sys\nos.write(int(sys.argv[1]), {answer})\nos._exit(0)")
    assert (outcome.set, outcome.status) == ({}, "ok" if forged_report == "[]" else "error")


FETCH = (
    "from noetl.worker.secrets import fetch_credential_by_key\nresult = fetch_credential_by_key('ib')['data']['url']"
)


@pytest.mark.parametrize("auth", ["ib", {"credential": "ib"}, {"gateway": {"key": "ib", "type": "api_key"}}])
async def test_a_credential_of_the_task_is_given(auth: Any) -> None:
    credential = {"type": "api_key", "url": "https://gateway.test", "api_key": "hush-hush"}
    context = Context(ib=credential)
    outcome = await TOOL.run(request("python", auth, code=FETCH), context)
    assert outcome.error is None
    assert outcome.result == "https://gateway.test"


async def test_another_credential_is_not_given() -> None:
    outcome = await run(FETCH, auth="other", credentials={"ib": {"token": "hush"}, "other": {"token": "mine"}})
    assert outcome.error is not None
    assert outcome.error.code == "LookupError"
    assert "write auth: ib beside its code" in outcome.error.message
    alone = await run(FETCH, credentials={"ib": {"token": "hush"}})
    assert alone.error is not None
    assert alone.error.code == "LookupError"


async def test_an_unknown_credential_is_an_error() -> None:
    with pytest.raises(CredentialError):
        await run(FETCH, auth="ib")


async def test_the_package_is_there_for_code_that_imports_it() -> None:
    answer = await run("import importlib.util\nresult = importlib.util.find_spec('noe' + 'tl') is None")
    assert answer.result is True
