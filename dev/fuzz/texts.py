"""Generates playbooks with pieces of text removed, moved, repeated and inserted."""

from __future__ import annotations

import random

from noetl_compiler import compile_text

__all__ = ["check_compiling", "mutated_seed"]

PIECES = (
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!!python/object:x ",
        "!!set ",
        "? ",
        "- ",
        ": ",
        "\n---\n",
        "\n...\n",
        "%YAML 1.2\n",
        "#",
    ),
    *("{", "}", "[", "]", ",", '"', "'", "|\n", ">-\n", "\t", "\r", "\x00", "\x85", "\u2028", "\ufeff", "\ud800", "😀"),
    *("{{ ", " }}", "{% ", " %}", "{#", "{{ x }}", "{% if x %}", "~", "null", "yes", "1e999", "0x1f", "2024-01-01"),
    *("step: ", "tool: ", "next: ", "when: ", "then: ", "loop: ", "- - - - - ", "[" * 200, "{a: " * 100, "x" * 5_000),
)


def mutated_seed(rng: random.Random, seeds: list[str]) -> str:
    """One of the seeds after one to six changes."""
    text = rng.choice(seeds)
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + int(rng.expovariate(1 / 20)))
        text = text[:start] + _replacement(rng, seeds, text[start:end]) + text[end:]
    return text


def _replacement(rng: random.Random, seeds: list[str], cut: str) -> str:
    match rng.randrange(5):
        case 0:
            return ""
        case 1:
            return cut + rng.choice(PIECES)
        case 2:
            return cut * rng.choice((2, 3, 50))
        case 3:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) + 1)
            return other[start : start + rng.randint(1, 400)]
        case _:
            return "".join(rng.choice((char, char, chr(rng.randrange(1, 0x3000)))) for char in cut)


def check_compiling(text: str) -> None:
    """Compile the text and format its diagnostics."""
    compile_text(text, "case.yaml")
