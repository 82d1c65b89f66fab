"""What both receivers share: orders come in by stdin, what happens is told by stdout, one JSON document a line.

The port is held by a socket that never listens, so that nobody else gets it while the receiver is down.
"""

import json
import socket
import sys
import threading

TELLING = threading.Lock()


def tell(**news):
    with TELLING:
        sys.stdout.write(json.dumps(news) + "\n")
        sys.stdout.flush()


class Port:
    def __init__(self):
        self.held = self._bound(0)
        self.number = self.held.getsockname()[1]

    def _bound(self, port):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", port))
        return sock

    def open(self):
        sock = self._bound(self.number)
        sock.listen(128)
        return sock


class Orders:
    """How to behave. An order that came is acknowledged, and holds for everything that comes after."""

    def __init__(self, obey=lambda order: None):
        self.now = ["ok"]
        self.obey = obey

    def read(self):
        for line in sys.stdin:
            order = line.split()
            self.obey(order)
            self.now = order
            tell(obeyed=line.strip())
