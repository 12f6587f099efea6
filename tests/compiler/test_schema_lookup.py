"""Keys are found by their path, in the tables from which the schema is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl_compiler.codes import Code, explanation
from noetl_compiler.reference_pages import pages
from noetl_compiler.schema.lookup import CONSTRUCTS, UnknownPathError, lookup, lookup_suffix
from noetl_compiler.schema.tools import KNOWN_KINDS

DEEPEST = 6
"""Segments of the longest path that is tried: a rule may hold a rule."""


def paths_below(path: str) -> Iterator[str]:
    yield path
    if path.count(".") + 1 < DEEPEST:
        for name, _ in lookup(path).keys:
            yield from paths_below(f"{path}.{name}")


@pytest.mark.parametrize("start", [*CONSTRUCTS, *KNOWN_KINDS.names])
def test_every_key_is_explained(start: str) -> None:
    for path in paths_below(start):
        entry = lookup(path)
        assert entry.path == path
        assert entry.about
        assert entry.value or "." not in path


@pytest.mark.parametrize(
    ("path", "about"),
    [
        ("loop.spec.max_in_flight", "How many iterations run concurrently; by default 16"),
        ("step.loop.spec.max_in_flight", "How many iterations run concurrently; by default 16"),
        ("rule.then.attempts", "The maximum number of calls, including the first"),
        ("task.spec.policy.rules.then.attempts", "The maximum number of calls, including the first"),
        ("next.arcs.when", "The condition under which this route is followed"),
        ("http.url", "The address to call"),
        ("http.spec.policy.rules", "The rules, tried in order"),
        ("sink.mode", "How rows are stored"),
        ("workload", "The playbook's parameters"),
        ("arcs", "The routes from a step"),
        ("task.input", "Names and values for the call"),
        ("task.retry.then.collect", "How the results of all calls are combined"),
    ],
)
def test_a_key_is_found_by_its_path(path: str, about: str) -> None:
    assert lookup(path).about.startswith(about)


def test_a_key_is_found_by_an_older_name() -> None:
    assert lookup("loop.concurrency").older_names == ("concurrency",)


def test_a_kind_distinguishes_its_own_keys_from_those_of_every_call() -> None:
    kind_found = lookup("postgres")
    own_keys, shared_keys = dict(kind_found.keys), dict(kind_found.shared_keys)
    assert "command" in own_keys
    assert "spec" in shared_keys
    assert own_keys.keys().isdisjoint(shared_keys)


def test_a_key_reports_its_words_and_examples() -> None:
    assert dict(lookup("next.spec.mode").choices).keys() == {"exclusive", "inclusive"}
    assert lookup("task.timeout").examples == (30, "500ms", "5m")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("rule.thn", 'unknown key "thn" in "rule": did you mean "then"?'),
        ("lop", 'unknown key "lop" of a playbook: did you mean "loop"?'),
        ("loop.spec.max_in_fligt", 'unknown key "max_in_fligt" in "loop.spec": did you mean "max_in_flight"?'),
        ("tool.url", 'unknown key "url" in "tool": try http.url'),
        ("loop.spec.mode.deeper", 'unknown key "deeper" in "loop.spec.mode": it has no keys'),
        ("hedaers", 'unknown key "hedaers" of a playbook: did you mean "headers"?'),
        ("headers", 'unknown key "headers" of a playbook: try http.headers'),
        ("max_in_flight", 'unknown key "max_in_flight" of a playbook: try step.loop.max_in_flight'),
        ("step.attempts", 'unknown key "attempts" in "step": try rule.then.attempts'),
        ("key", 'unknown key "key" of a playbook: try wait.key'),
        ("task.postgres.command", 'unknown key "postgres" in "task": try postgres'),
        ("next.arcs[].when", 'unknown key "arcs[]" in "next": did you mean "arcs"?'),
        ("xyzzy", 'unknown key "xyzzy" of a playbook'),
        ("", 'unknown key "" of a playbook'),
        ("loop..in", 'unknown key "" in "loop"'),
    ],
)
def test_an_unknown_key_names_the_nearest(path: str, message: str) -> None:
    with pytest.raises(UnknownPathError) as error:
        lookup(path)
    assert str(error.value) == message


@pytest.mark.parametrize("code", Code, ids=lambda code: code.value)
def test_every_code_has_its_section(code: Code) -> None:
    text = explanation(code)
    assert text.startswith(f"{code.value} ")
    assert code.meaning in text.replace("\n", " ")
    assert "\n## " not in text


def test_a_path_that_is_named_leads_to_a_key() -> None:
    names = {path.rpartition(".")[2] for start in CONSTRUCTS for path in paths_below(start)}
    hints = [message.partition(": try ")[2] for message in map(message_about, names) if ": try " in message]
    assert len(hints) > 50
    assert all(lookup(path).about for path in hints)


def message_about(name: str) -> str:
    """What is said of a path of one name, "" where it leads to a key."""
    try:
        lookup(name)
    except UnknownPathError as error:
        return str(error)
    return ""


def test_no_page_of_the_reference_hides_a_key() -> None:
    """``noetl explain`` prints the page. What has both names today is a key that is not written any more."""
    for name in pages().keys() - {"pagination"}:
        with pytest.raises(UnknownPathError):
            lookup(name)


def test_keys_are_found_by_the_end_of_their_path() -> None:
    assert [entry.path for entry in lookup_suffix("then.collect")] == ["rule.then.collect", "task.retry.then.collect"]
    assert lookup_suffix("collec") == ()


def test_an_older_name_of_a_field_of_every_kind_is_one_in_every_kind() -> None:
    assert lookup("task.input").older_names == ("with",)
