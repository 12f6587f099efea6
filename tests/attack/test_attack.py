"""Generated attacks are stopped, and the report of that can be trusted."""

from __future__ import annotations

import random

import pytest

from dev.attack.__main__ import ATTACKS, main
from dev.attack.classes import CLASSES
from dev.attack.runner import run_class
from tests.attack.made import BROKEN_CLASS, CONTROL_CLASS, CONTROLS, MISSING


@pytest.mark.parametrize("name", CLASSES)
def test_every_attack_is_stopped_and_every_control_passes(name: str) -> None:
    if missing := CLASSES[name].missing():
        pytest.skip(missing)
    result = run_class(CLASSES[name], seed=1, count=30)
    assert result.through == []
    assert result.held == []
    assert result.broken == []
    assert (result.tried, result.controls) == (30, len(CLASSES[name].controls))
    assert result.controls >= 2


def test_there_are_enough_attacks() -> None:
    assert ATTACKS >= 20
    assert ATTACKS * len(CLASSES) >= 500


@pytest.mark.parametrize("name", CLASSES)
def test_a_seed_makes_the_same_attacks_again_and_another_makes_others(name: str) -> None:
    def attack_names(seed: int) -> list[str]:
        return [attack.description for attack in CLASSES[name].attacks(random.Random(seed), 22)]

    assert attack_names(1) == attack_names(1)
    assert attack_names(1) != attack_names(2)


def test_every_outcome_but_a_refusal_counts_as_a_success_of_the_attack() -> None:
    result = run_class(CONTROL_CLASS, seed=1, count=5, cpu_seconds=0.5)
    assert result.tried == 5
    assert result.through == [
        "endless: took more than 0.5 s",
        "gone: ended the process",
        "failing: KeyError: 'no words of ours'",
        "successful: got through",
    ]
    assert result.held == ["control"]
    assert not result.is_fine


def test_a_control_that_fails_otherwise_than_declared_is_broken() -> None:
    result = run_class(CONTROLS, seed=1, count=0, cpu_seconds=0.5)
    assert (result.controls, result.held, result.through) == (6, [], [])
    assert result.broken == [
        "failing: KeyError: 'no words of ours', not got through",
        "slow: took more than 0.5 s, not got through",
        "gone: ended the process, not got through",
        "through without its effect: got through, not RecursionError",
    ]
    assert not result.is_fine


def test_a_broken_control_is_shown_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(CLASSES, "controls", CONTROLS._replace(controls=CONTROLS.controls[:3]))
    monkeypatch.setattr("sys.argv", ["dev.attack", "--class", "controls", "--attacks", "0"])
    assert main() == 1
    output = capsys.readouterr().out
    assert "2 of 3" in output
    assert "a control is broken: failing: KeyError: 'no words of ours', not got through" in output


def test_only_the_classes_that_are_named_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dev.attack", "--class", "addresses", "--class", "names", "--attacks", "4"])
    assert main() == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["class", "addresses", "names", "in"]


def test_a_control_whose_guard_cannot_be_switched_off_proves_nothing() -> None:
    with pytest.raises(RuntimeError, match="ended the process between two attacks"):
        run_class(BROKEN_CLASS, seed=1, count=0)


def test_classes_that_the_platform_cannot_stop_are_not_run() -> None:
    result = run_class(MISSING, seed=1, count=5)
    assert (result.tried, result.controls, result.missing, result.is_fine) == (0, 0, "no such kernel", True)
