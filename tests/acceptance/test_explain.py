"""``noetl explain`` as a person calls it."""

from __future__ import annotations

import pytest

from tests.acceptance.site import Site


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            [],
            [
                "playbook",
                "Tool kinds:",
                "http",
                "Known, but not supported:",
                "rhai",
                "Pages of the reference:",
                "NT303",
            ],
        ),
        (["loop.spec.mode"], ["loop.spec.mode: one of sequential, parallel", "Values:", "  parallel "]),
        (
            ["http"],
            [
                "Calls a web API",
                "NOETL_HTTP_ALLOW in the environment of the worker",
                "  url ",
                "Keys of every tool call:",
                "  timeout ",
                "Keys of its result:",
                "  data ",
            ],
        ),
        (["playbook"], ["  workflow ", "The tool kind of the same name:", "  return_step ", "Its result:"]),
        (["rhai"], ["Runs a script in the Rhai language.", "Not supported, so a run is refused: there is no"]),
        (["collect"], ["rule.then.collect: ", "It is also at:", "task.retry.then.collect"]),
        (["task.retry.then.collect"], ["task.retry.then.collect: ", "  strategy "]),
        (["when"], ["Keys named when:", "  task.guard.when ", "  rule.when ", "noetl explain rule.when"]),
        (["input"], ["input: a mapping", "Other keys named input:", "  task.input ", "  step.next.input "]),
        (["arcs.when"], ["step.next.arcs.when: "]),
        (["loops"], ["# Loops", "## In parallel", "```yaml"]),
        (["nt303"], ["NT303 Undefined name", "```yaml"]),
    ],
    ids=[
        "nothing",
        "a key",
        "a kind",
        "a construct and a kind",
        "an unsupported kind",
        "the end of two paths",
        "a key of one of several mappings",
        "different keys",
        "a key and others",
        "the end of a path",
        "a page",
        "a code",
    ],
)
def test_what_explain_prints(bare: Site, args: list[str], says: list[str]) -> None:
    done = bare.noetl("explain", *args)
    assert (done.returncode, done.stderr) == (0, "")
    for text in says:
        assert text in done.stdout
    assert "<!--" not in done.stdout


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("rule.thn", 'did you mean "then"?'),
        ("task.polcy", 'unknown key "polcy" in "task": did you mean "task.spec.policy"?'),
        ("step.policy", 'unknown key "policy" in "step": try step.spec.policy'),
        ("task.policy", 'unknown key "policy" in "task": try task.spec.policy'),
        ("ctx", '"ctx" is a name in templates: noetl explain templates'),
        ("loop.mod", 'unknown key "mod" in "loop": did you mean "mode"?; "loop" is a name in templates'),
        ("iter.page", '"iter" is a name in templates: noetl explain templates'),
        ("NT999", "unknown code NT999"),
        ("\x1b[31mred", "unknown key"),
    ],
)
def test_an_unknown_path_exits_with_2(bare: Site, path: str, says: str) -> None:
    done = bare.noetl("explain", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "\x1b" not in done.stderr
