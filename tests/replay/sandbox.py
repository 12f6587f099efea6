"""The SDK's sandbox as our workflows are replayed in it once more, to find what would not replay elsewhere.

Workers run our workflows without it (sandboxed=False). A workflow with that flag is left alone by every runner, so the
ones replayed here are copies without it (sandboxed.py). In the sandbox a module is imported anew for each workflow, so
it keeps nothing from one to the next, and the clock, randomness, files, the network and threads are refused.

Passed through, that is shared and not watched:

- temporalio, asyncio, pydantic and nexusrpc, by the SDK itself. Of the standard library only members that are refused
  are watched.
- msgspec: an extension module, which cannot be imported twice. It keeps its structs' types alive as long as itself.
- jinja2 and markupsafe: the compiler of templates imports while it compiles, and takes locks, which is refused at run
  time. What a template may reach is the law of noetl_compiler.templating.sandbox, which is watched.
- dev.histories.limits, which says under what limits the history was recorded, and holds no code of ours beside.

All of noetl_temporal and noetl_compiler that a workflow imports is watched. The interceptor that puts events into
headers is ours too, but is made by the worker, outside of any sandbox: nothing can be done about that here.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

__all__ = ["Sandbox"]

SHARED = ("msgspec", "jinja2", "markupsafe", "dev.histories.limits")
RESTRICTIONS = SandboxRestrictions.default.with_passthrough_modules(*SHARED)


class Sandbox(SandboxedWorkflowRunner):
    """One for each replay. It does not try the import before, which would take as long again for each workflow."""

    def __init__(self, restrictions: SandboxRestrictions = RESTRICTIONS, **others: Any) -> None:
        super().__init__(restrictions=restrictions, **others)

    def prepare_workflow(self, defn: workflow._Definition) -> None:  # pyright: ignore[reportPrivateUsage]
        """See SandboxedWorkflowRunner."""
