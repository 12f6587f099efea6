"""Runs code of a playbook in a process that may do little, whatever the code is.

    worker ── pipe ──► supervisor ── fork ──► task
                        (waits, ends all)      (confines itself, then runs the playbook's code)

``processes`` is the worker's side: it starts a supervisor for one call, hands over the call, reads what is printed and
answered, and closes the pipe to end the call. ``supervisor`` is the process beside the task; it outlives the task and
the worker, and ends all that the task has started. ``confinement`` is what the task does to itself between its fork
and the first line of the playbook's code; nobody can undo it:

- ``accounts``: an account of its own, or a user namespace of its own;
- ``limits``: memory, files, processes;
- ``landlock``: which files, which ports, no process outside;
- ``call_filter``: which kinds of sockets, and no limits for others.

What a platform lacks is left out, and said by ``probe``. What a platform has must work: otherwise the call fails.

All but ``processes``, ``settings`` and ``probe.isolation`` runs in the child, which pays for each import: the standard
library only, and little of it.
"""
