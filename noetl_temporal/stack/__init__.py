"""The embedded stack: Temporal's development server and a Postgres, both from wheels, for one folder.

What a stack keeps lies in a folder of the account's own, one for each project, never in the project: see
``places.py`` for where, ``home.py`` for what, ``files.py`` for how files are opened that others might have made.

One process owns the stack of a folder: it holds ``owner.lock`` there (flock, so the kernel lets go of it
however the owner dies), starts both servers as its children and publishes their addresses in
``stack.json``. Everyone else who wants that stack joins: reads the addresses and holds
``users.lock`` shared, and an owner that is done waits for that lock before it stops the servers.

Nothing outlives its owner. A guard, a shell that reads the servers' process ids from a pipe, ends them when
the pipe closes, which it does even when the owner is killed. Should the guard be killed too, the next owner
finds the processes in ``servers.json`` and ends those that are still the same (``identity.py``).

Data stays: ``temporal.db`` (SQLite, write-ahead log) and ``postgres/`` are opened again by the next run.
"""
