"""Recordings of loops over a cursor. The table has two rows; every statement but a claim changes one."""

from __future__ import annotations

from dev.histories.recording import Recording
from dev.histories.session import Session

__all__ = ["CURSORS"]


def cursor(message: str, more: str = "") -> str:
    return f"""\
  - step: start
    loop:
      cursor:
        kind: postgres
        claim: "claim {{{{ lease.token }}}}"
        renew: "renew {{{{ row.id }}}}"
        ack: "ack {{{{ row.id }}}} {{{{ output.status }}}}"
        release: "release {{{{ row.id }}}}"
      iterator: row
      spec: {{max_in_flight: 1{more}}}
    tool: {{kind: noop, message: "{message}"}}
"""


async def cancel(session: Session) -> None:
    await session.wait_for_calls("wait")
    await session.handle.cancel("enough")


CURSORS = {
    "cursor_with_failures": Recording(
        cursor("{{ 'broken' if iter.row.id == 1 else 'fine' }}", ", policy: {failure: {mode: best_effort}}")
    ),
    "cursor_cancelled": Recording(
        cursor("wait"), script=cancel, ends="cancelled", shows=("ACTIVITY_TASK_CANCEL_REQUESTED",)
    ),
}
