"""The embedded stack: Temporal's development server and a Postgres, both from wheels, for one folder.

One process owns the stack of a folder: it holds ``.noetl/owner.lock`` (flock, so the kernel lets go of it
however the owner dies), starts both servers as its children and publishes their addresses in
``.noetl/stack.json``. Everyone else who wants a stack in that folder joins: reads the addresses and holds
``.noetl/users.lock`` shared, and an owner that is done waits for that lock before it stops the servers.

Nothing outlives its owner. A guard, a shell that reads the servers' process ids from a pipe, ends them when
the pipe closes, which it does even when the owner is killed. Should the guard be killed too, the next owner
finds the ids in ``.noetl/servers.json`` and ends what still runs with this folder's data.

Data stays: ``temporal.db`` (SQLite, write-ahead log) and ``postgres/`` are opened again by the next run.
"""
