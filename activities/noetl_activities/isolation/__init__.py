"""Runs code of a playbook in a sandboxed process.

    worker ── pipe ──► supervisor ── fork ──► task
                        (waits, ends all)      (confines itself, then runs the playbook's code)

``processes`` is the worker's side: it starts a supervisor for one call, sends the call, reads its output and result,
and closes the pipe to end the call. ``supervisor`` is the parent process of the task; it outlives the task and the
worker, and ends all processes that the task has started. ``confinement`` is the irreversible sandbox that the task
enters between its fork and the first line of the playbook's code:

- ``accounts``: an account of its own, or a user namespace of its own;
- ``limits``: memory, files, processes;
- ``landlock``: which files, which ports, no process outside;
- ``call_filter``: which kinds of sockets, and no limits for others.

Features that the platform lacks are skipped, and reported by ``probe``. Features that it has must work: otherwise the
call fails.

Everything except ``processes``, ``settings`` and ``probe.describe_isolation`` runs in the child, which pays for each
import: it uses only the standard library, and little of it.
"""
