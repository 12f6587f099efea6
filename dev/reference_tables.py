"""Writes the tables of the reference from those of the code: ``python -m dev.reference_tables [--write]``.

A table stands between ``<!-- table: NAME ARGUMENT -->`` and ``<!-- end -->``. Without ``--write`` the status is 1 where
one is stale.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from noetl_compiler.language import defaults, quantities
from noetl_compiler.language.constructs.playbook_tests import TEST_CONSTRUCTS
from noetl_compiler.language.error_kinds import ERROR_KINDS, ErrorKind
from noetl_compiler.language.events import AFTER_CALL, AFTER_LOOP, ENTERED, SKIPPED, names_of
from noetl_compiler.language.tools import KINDS, PSEUDO_KINDS
from noetl_compiler.schema.lookup import KeyEntry, lookup
from noetl_compiler.templating import budget, filters

PAGES = Path(__file__).parent / "reference"

_MARKED = re.compile(r"(<!-- table: (?P<name>\w+) ?(?P<argument>[^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """The text of a page with its tables as the code has them."""

    def table(match: re.Match[str]) -> str:
        lines = _TABLES[match["name"]](match["argument"])
        return f"{match[1]}\n{chr(10).join(lines)}\n\n{match[4]}"

    return _MARKED.sub(table, text)


def entry(path: str) -> KeyEntry:
    """Return the entry of a key, a construct or a tool kind in the tables of the compiler."""
    return lookup(path)


def _table(*header: str, rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines]


_WORDS: Mapping[str, str] = {
    'a duration such as 30 or "30s"; units are ms, s, m, h and d': "a duration",
    'a template such as "{{ ... }}", or true or false': "a condition",
    "a number, or a template that yields one": "a number",
    "a mapping, or a template that yields one": "a mapping",
}
"""Short descriptions of values; a page says once that a template may replace any of them."""

_SHORT = re.compile("|".join(map(re.escape, _WORDS)))

# ---- keys ------------------------------------------------------------------------------------------------------------


def _keys(argument: str) -> list[str]:
    """The keys below a path; ``but A B`` excludes keys, ``only A B`` lists only these."""
    path, _, filter_text = argument.partition(" ")
    mode, _, names = filter_text.partition(" ")
    key_names = [name for name, _ in entry(path).keys]
    if mode == "only":
        key_names = names.split()
    elif mode == "but":
        key_names = [name for name in key_names if name not in names.split()]
    return _table("key", "value", "meaning", rows=(_row(path, name) for name in key_names))


def _row(path: str, name: str) -> tuple[str, str, str]:
    key = entry(f"{path}.{name}")
    required_suffix = " (required)" if key.is_required else ""
    value = ", ".join(f"`{word}`" for word, _ in key.choices if _is_current(key, word)) or key.value
    return f"`{name}`{required_suffix}", _SHORT.sub(lambda long: _WORDS[long[0]], value), key.about


def _is_current(entry: KeyEntry, word: str) -> bool:
    return not re.match(r"(Another|An older) word for", dict(entry.choices)[word])


def _words(path: str) -> list[str]:
    """The allowed words of a key, each with its meaning."""
    return _table("value", "meaning", rows=((f"`{word}`", about) for word, about in entry(path).choices))


def _older_names(argument: str) -> list[str]:
    """Older names of the keys below some paths."""
    return _table("current name", "older names", rows=_with_older(argument.split()))


def _with_older(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for name, _ in entry(path).keys:
            if names := entry(f"{path}.{name}").older_names:
                yield f"`{path}.{name}`", ", ".join(f"`{value}`" for value in names)


def _test_keys(name: str) -> list[str]:
    """The keys of a construct of test files."""
    keys = next(test.keys for test in TEST_CONSTRUCTS if test.name == name)
    rows = ((f"`{key.name}`{' (required)' if key.required else ''}", key.about) for key in keys)
    return _table("key", "meaning", rows=rows)


# ---- tools -----------------------------------------------------------------------------------------------------------

_EFFECTS: Mapping[str | None, str] = {
    "none": "nothing",
    "request": "what the server does at its request",
    "transaction": "what its SQL does, in one transaction",
    "rows": "the rows of its target",
    "service": "what the service does",
    "code": "whatever its code does",
    "run": "what the calls of that run change",
}


_VALUES: Mapping[str, str] = {
    "": "any value",
    "text": "text",
    "number": "a number",
    "flag": "true or false",
    "list": "a list",
    "mapping": "a mapping",
}


def _tools(_argument: str) -> list[str]:
    rows = ((f"`{name}`", kind.summary, _EFFECTS[kind.effect]) for name, kind in KINDS.items() if kind.has_executor)
    return _table("kind", "what it does", "what it changes outside of the run", rows=rows)


def _unsupported_tools(_argument: str) -> list[str]:
    names = (name for name, kind in KINDS.items() if not kind.has_executor and name not in PSEUDO_KINDS)
    rows = ((f"`{name}`", KINDS[name].summary, _sentence(KINDS[name].unsupported)) for name in names)
    return _table("kind", "what it would do", "why it does not run, and what to use instead", rows=rows)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _results(kind: str) -> list[str]:
    """The keys of the result of a tool kind."""
    rows = ((f"`{name}`", _VALUES[" or ".join(field.types)], field.about) for name, field in KINDS[kind].result.items())
    return _table("key of the result", "value", "meaning", rows=rows)


# ---- templates -------------------------------------------------------------------------------------------------------


def _filters(_argument: str) -> list[str]:
    return [", ".join(f"`{name}`" for name in sorted(filters.FILTERS) if " " not in name) + "."]


def _tests(_argument: str) -> list[str]:
    return [", ".join(f"`{name}`" for name in sorted(filters.TESTS) if name.isidentifier()) + "."]


def _budgets(_argument: str) -> list[str]:
    rows = (
        ("steps: iterations, calls, items looked at", f"{budget.MAX_STEPS:,}"),
        ("characters made", f"{budget.MAX_CHARS:,}"),
        ("values in the result", f"{budget.MAX_NODES:,}"),
        ("values in a result that is a value of the run as it is", f"{budget.MAX_NODES_PASSED_ON:,}"),
        ("bits of a number that is computed", f"{budget.MAX_BITS:,}"),
    )
    return _table("of one template", "at most", rows=rows)


# ---- errors ----------------------------------------------------------------------------------------------------------


def _error_kinds(_argument: str) -> list[str]:
    rows = ((f"`{name}`", kind.when, _retryable(kind)) for name, kind in ERROR_KINDS.items())
    return _table("kind", "when", "retryable", rows=rows)


def _retryable(kind: ErrorKind) -> str:
    if kind.is_retryable:
        return "yes"
    return f"for {', '.join(f'`{code}`' for code in sorted(kind.codes))}" if kind.codes else "no"


# ---- runs ------------------------------------------------------------------------------------------------------------


def _events(_argument: str) -> list[str]:
    boundaries = (ENTERED, SKIPPED, *AFTER_CALL.values(), *AFTER_LOOP.values())
    rows = ((f"`{name}`", ", ".join(f"`{value}`" for value in sorted(names_of(name) - {name}))) for name in boundaries)
    return _table("event", "other names for it", rows=rows)


def _defaults(_argument: str) -> list[str]:
    frame = ", ".join(f"`{name}` {value:,}" for name, value in defaults.FRAME.items())
    rows = (
        ("calls of a `retry` rule, the first included", f"{defaults.ATTEMPTS}"),
        ("calls of an `again` rule, the first included", f"{defaults.PAGES}"),
        ("delay before the second call of a `retry` rule", f"{defaults.DELAY:g} s"),
        ("factor of an exponential delay", f"{defaults.MULTIPLIER:g}"),
        ("iterations of a parallel loop that run at once", f"{defaults.IN_FLIGHT}"),
        ("name of the item of a loop", f"`{defaults.ITERATOR}`"),
        ("name of what `collect` collects", f"`{defaults.COLLECTED_AS}`"),
        ("limits of a frame", frame),
        ("step that a run begins with", f"`{defaults.ENTRY_STEP}`, else the first"),
        ("step where all routes meet", f"`{defaults.FINAL_STEP}`"),
    )
    return _table("setting", "default", rows=rows)


def _units(_argument: str) -> list[str]:
    return _table("unit", "seconds", rows=((f"`{unit}`", f"{value:g}") for unit, value in quantities.UNITS.items()))


_TABLES: Mapping[str, Callable[[str], list[str]]] = {
    "keys": _keys,
    "test_keys": _test_keys,
    "words": _words,
    "older": _older_names,
    "tools": _tools,
    "results": _results,
    "unsupported": _unsupported_tools,
    "filters": _filters,
    "tests": _tests,
    "budgets": _budgets,
    "errors": _error_kinds,
    "events": _events,
    "defaults": _defaults,
    "units": _units,
}


def main() -> int:
    """Compare or write all pages."""
    stale = {
        page: now for page in sorted(PAGES.glob("*.md")) if (now := with_tables(page.read_text())) != page.read_text()
    }
    for page, text in stale.items():
        if "--write" in sys.argv:
            page.write_text(text)
        print(f"{page.name}: {'written' if '--write' in sys.argv else 'stale: python -m dev.reference_tables --write'}")
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
