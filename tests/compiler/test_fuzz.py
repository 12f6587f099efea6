"""The fuzzers of dev/fuzz find nothing in a few cases; ``python -m dev.fuzz`` runs them for minutes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dev.fuzz import playbooks, templates, texts

SEEDS = [file.read_text(encoding="utf-8") for file in sorted((Path(__file__).parent / "corpus/ok").glob("*.yaml"))]


@pytest.mark.parametrize("seed", range(3))
def test_a_few_cases_of_each_kind(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        texts.check_compiling(texts.mutated_seed(chance, SEEDS))
        templates.check_template(templates.random_template(chance, SEEDS))
        playbooks.check_views(playbooks.mutated_seed(chance, SEEDS))


def test_the_same_seed_makes_the_same_cases() -> None:
    case, other = random.Random(5), random.Random(5)
    assert [playbooks.mutated_seed(case, SEEDS) for _ in range(5)] == [
        playbooks.mutated_seed(other, SEEDS) for _ in range(5)
    ]
