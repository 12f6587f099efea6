"""A process that ends the servers when their owner has ended for any reason."""

from __future__ import annotations

import contextlib
import os
import subprocess

from noetl_temporal.stack.process import Server

__all__ = ["Guard"]

# Reads lines `server PID`, `service PID` and `ended PID` until the pipe closes, and then ends the processes. Services
# are killed before the servers stop; otherwise they would record the loss of the servers as failures of their calls.
# A negative id means the whole process group: what a server has started is killed with it.
SCRIPT = """
servers= services=
while read -r event pid; do
  case "$event" in
    server) servers="$servers $pid" ;;
    service) services="$services $pid" ;;
    ended)
      others=
      for service in $services; do [ "$service" = "$pid" ] || others="$others $service"; done
      services=$others ;;
  esac
done
for pid in $services; do kill -9 "-$pid" 2>/dev/null; done
for pid in $servers; do kill -2 "$pid" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
  running=
  for pid in $servers; do kill -0 "$pid" 2>/dev/null && running="$running $pid"; done
  servers=$running
  [ -n "$servers" ] || exit 0
  sleep 0.5
done
for pid in $servers; do kill -9 "-$pid" 2>/dev/null; done
"""


class Guard:
    """Ends the watched servers when this process has ended."""

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
        """End ``server`` when this process has ended."""
        self._send("service" if server.is_service else "server", server)

    def forget(self, server: Server) -> None:
        """Stop guarding a service that has ended: its process id may be reused."""
        self._send("ended", server)

    def dismiss(self) -> None:
        """End the guard, because the servers have been stopped."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._pipe)

    def _send(self, event: str, server: Server) -> None:
        # If the guard was killed, the servers are still recorded on disk for the next owner.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, f"{event} {server.process.pid}\n".encode())
