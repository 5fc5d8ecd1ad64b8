"""A proxy that lets TLS through: it answers CONNECT, then passes bytes on in both directions."""

from __future__ import annotations

import contextlib
import socket
import threading


class Tunnel:
    """The proxy; `heads` holds what it was asked. With a `status` other than 200 it refuses."""

    def __init__(self, status: int = 200) -> None:
        self._status = status
        self.heads: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://who:so@127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed: nobody is served any more
            while True:
                threading.Thread(target=self._pass_on, args=self._listening.accept()[:1], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.heads.append(head.decode())
        client.sendall(b"HTTP/1.1 %d Whatever\r\n\r\n" % self._status)
        if self._status != 200:
            client.close()
            return
        host, _, port = head.split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as server, client:
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either end hung up
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
