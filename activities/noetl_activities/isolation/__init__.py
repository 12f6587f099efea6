"""Runs code of a playbook in a sandboxed process.

    worker ── pipe ──► supervisor ── fork ──► task
                        (waits for the task,   (enters the sandbox, then runs the playbook's code)
                         ends its processes)

``processes`` is the worker's side: it starts a supervisor for one call, sends the call, reads its output and result,
and closes the pipe to end the call. ``supervisor`` is the parent process of the task; it outlives the task and the
worker, and ends all processes that the task has started. ``confinement`` is the irreversible sandbox that the task
enters between its fork and the first line of the playbook's code:

- ``accounts``: a separate user account, or a separate user namespace;
- ``mounts``: a read-only file system, except for the folders that the task may write;
- ``limits``: memory, files, processes;
- ``landlock``: allowed files and ports, and no access to processes outside of the sandbox;
- ``call_filter``: allowed kinds of sockets, and no changes of the limits of other processes.

Features that the platform lacks are skipped, and reported by ``probe``. Features that it has must work: otherwise the
call fails.

Everything except ``processes``, ``settings`` and ``probe.describe_isolation`` runs in the child. Each call pays for its
imports, so it uses only the standard library, and little of it.
"""
