"""What upstream's playbooks expect of their script, which upstream did not publish."""

from __future__ import annotations


def main(name: str, count: int) -> dict[str, object]:
    messages = [f"Hello {name}, {number}" for number in range(1, int(count) + 1)]
    return {"status": "success", "messages": messages, "total_greetings": len(messages), "script_source": "file"}
