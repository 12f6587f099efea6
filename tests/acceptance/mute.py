"""A way to a server on which answers can be held back, as when a network drops them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Mute:
    """Answers are held back from ``hold`` on, or from the first ``large`` bytes sent at once: then it is ``muted``."""

    def __init__(self, target: str, listener: socket.socket, large: int) -> None:
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.is_muted, self._speaks = threading.Event(), threading.Event()
        self._target, self._listener, self._large = target, listener, large
        self._sockets = [listener]
        self._sockets_lock, self._is_closed = threading.Lock(), False
        self._speaks.set()

    def hold(self) -> None:
        """Hold answers back from now on."""
        self._speaks.clear()
        self.is_muted.set()

    def let_go(self) -> None:
        """Let through what was held back, and all after it."""
        self._large = 1 << 30
        self._speaks.set()

    def serve(self) -> None:
        """Accept until closed."""
        host, _, port = self._target.rpartition(":")
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._register(client)
                server = socket.create_connection((host, int(port)))
                self._register(server)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        self._speaks.set()
        with self._sockets_lock:
            self._is_closed = True
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _register(self, connection: socket.socket) -> None:
        """Have the connection closed at the end. Raises OSError, and closes it at once, if the end came before."""
        with self._sockets_lock:
            if self._is_closed:
                connection.close()
                raise OSError("closed")
            self._sockets.append(connection)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if len(data) >= self._large:
                    self.hold()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                self._speaks.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)


@contextmanager
def mute(target: str, large: int = 1 << 30) -> Generator[Mute]:
    """A way to ``target``, HOST:PORT, that falls silent at the first request of ``large`` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way = Mute(target, listener, large)
        threading.Thread(target=way.serve, daemon=True).start()
        try:
            yield way
        finally:
            way.close()
