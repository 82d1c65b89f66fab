"""A receiver of webhooks, chats and pings. Signatures are verified with `standardwebhooks`, one verdict for each secret
it knows (HOOK_SECRETS), and events are read with `cloudevents`.

Orders: ok | status CODE [HEADER VALUE] | slow SECONDS | close | down
"""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from common import Orders, Port, tell
from standardwebhooks import Webhook

SECRETS = [Webhook(secret) for secret in os.environ.get("HOOK_SECRETS", "").split()]


def verified(body, headers):
    def by(webhook):
        try:
            webhook.verify(body, headers)
            return True
        except Exception as error:
            return str(error)

    return [by(webhook) for webhook in SECRETS]


def event(body, headers):
    if not headers.get("content-type", "").startswith("application/cloudevents+json"):
        return None
    try:
        read = from_http(HTTPMessage(headers=headers, body=body), JSONFormat())
        return {
            "id": read.get_id(),
            "source": read.get_source(),
            "type": read.get_type(),
            "subject": read.get_subject(),
            "time": read.get_time().isoformat(),
            "data": read.get_data(),
        }
    except Exception as error:
        return {"error": repr(error)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        order = orders.now
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        tell(
            got={
                "method": self.command,
                "path": self.path,
                "headers": headers,
                "body": body.decode(),
                "verified": verified(body, headers),
                "event": event(body, headers),
                "order": " ".join(order),
            }
        )
        self.answer(order)

    do_GET = do_POST

    def answer(self, order):
        status, extra = 200, []
        if order[0] == "close":
            self.close_connection = True
            return
        if order[0] == "slow":
            time.sleep(float(order[1]))
        if order[0] == "status":
            status, extra = int(order[1]), [order[2:4]] if len(order) > 3 else []
        said = b"ok" if status < 300 else b"told to"
        self.send_response(status)
        for name, value in extra:
            self.send_header(name, value)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


class Door:
    """Open or shut; nobody can connect to a shut one."""

    def __init__(self, port):
        self.port, self.server = port, None

    def obey(self, order):
        if order == ["down"] and self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
        elif order != ["down"] and not self.server:
            self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
            self.server.daemon_threads = True
            self.server.socket.close()
            self.server.socket = self.port.open()
            serve = lambda: self.server.serve_forever(poll_interval=0.02)
            threading.Thread(target=serve, daemon=True).start()


port = Port()
door = Door(port)
orders = Orders(door.obey)
door.obey(["ok"])
tell(ready=port.number)
orders.read()
