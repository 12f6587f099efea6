"""A process that ends the servers when their owner has ended for any reason."""

from __future__ import annotations

import contextlib
import os
import subprocess

from noetl_temporal.stack.process import Server

__all__ = ["Guard"]

# Reads `server PID`, `service PID` and `ended PID` lines until the pipe closes: only then does anything happen.
# Whoever works on the servers is killed before they stop, so that it cannot take their end for a failure of its work
# and report that. A negative id means the whole group: what a server has started goes with it.
SCRIPT = """
servers= services=
while read -r what pid; do
  case "$what" in
    server) servers="$servers $pid" ;;
    service) services="$services $pid" ;;
    ended)
      kept=
      for one in $services; do [ "$one" = "$pid" ] || kept="$kept $one"; done
      services=$kept ;;
  esac
done
for pid in $services; do kill -9 "-$pid" 2>/dev/null; done
for pid in $servers; do kill -2 "$pid" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for pid in $servers; do kill -0 "$pid" 2>/dev/null && left="$left $pid"; done
  servers=$left
  [ -n "$servers" ] || exit 0
  sleep 0.5
done
for pid in $servers; do kill -9 "-$pid" 2>/dev/null; done
"""


class Guard:
    """Ends the servers it watches when this process is gone."""

    def __init__(self) -> None:
        read, self._pipe = os.pipe()
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read)

    def watch(self, server: Server) -> None:
        """End ``server`` too."""
        self._send("service" if server.service else "server", server)

    def forget(self, server: Server) -> None:
        """Stop guarding a service that has ended: its process id may be reused."""
        self._send("ended", server)

    def dismiss(self) -> None:
        """End the guard, because the servers have been stopped."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._pipe)

    def _send(self, what: str, server: Server) -> None:
        # Should the guard have been killed, the servers are still noted on disk for the next owner.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, f"{what} {server.process.pid}\n".encode())
