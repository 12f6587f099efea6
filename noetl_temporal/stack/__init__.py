"""The embedded stack: Temporal's development server and a Postgres, both from wheels, for one folder.

A stack keeps its data in a private folder of the account, one per project and never in the project.
``stack_folders.py`` defines its path, ``home.py`` its contents, and ``files.py`` opens files that others may have
created.

One process owns the stack of a folder: it holds ``owner.lock`` (flock, which the kernel releases however the owner
dies), starts both servers as its children and publishes their addresses in ``stack.json``. Other users of the stack
read the addresses and hold a shared lock on ``users.lock``; the owner waits for them before it stops the servers.

No process outlives its owner. A guard, which is a shell that reads the servers' process ids from a pipe, ends them when
the pipe closes, even if the owner is killed. If the guard is killed too, the next owner finds the processes in
``servers.json`` and ends those that are still the same (``identity.py``).

Data is kept: ``temporal.db`` (SQLite, write-ahead log) and ``postgres/`` are opened again by the next run.
"""
