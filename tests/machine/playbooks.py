"""Small playbooks for the tests of the machine."""

from __future__ import annotations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"


def playbook(workflow: str, head: str = "") -> str:
    """A v10 playbook with the given steps."""
    return f"{HEAD}{head}workflow:\n{workflow}"


def step(name: str, *to: str, tool: str = "noop", mode: str = "exclusive") -> str:
    """A step with one task and unconditional arcs; none means that it names no way on."""
    arcs = "".join(f"        - step: {target}\n" for target in to)
    following = f"    next:\n      spec: {{mode: {mode}}}\n      arcs:\n{arcs}" if to else ""
    return f"  - step: {name}\n    tool: {{kind: {tool}}}\n{following}"
