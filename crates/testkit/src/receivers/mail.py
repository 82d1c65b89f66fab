"""A mail server: `aiosmtpd`, with STARTTLS or TLS from the first byte (MAIL_TLS, MAIL_CERT, MAIL_KEY) and a login
(MAIL_USER, MAIL_PASSWORD). What it takes is read with Python's own parser.

Orders: ok | rcpt CODE [ADDRESS] | data CODE | slow SECONDS | close | down
"""

import asyncio
import email
import email.policy
import os
import ssl
import threading

from aiosmtpd.smtp import SMTP, AuthResult
from common import Orders, Port, tell

TLS = os.environ["MAIL_TLS"]
USER = os.environ.get("MAIL_USER")
PASSWORD = os.environ.get("MAIL_PASSWORD")


def context():
    if TLS == "none":
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(os.environ["MAIL_CERT"], os.environ["MAIL_KEY"])
    return made


def letter(content):
    read = email.message_from_bytes(content, policy=email.policy.default)
    part = lambda kind: (found := read.get_body((kind,))) and found.get_content()
    headers = [[name.lower(), str(value)] for name, value in read.items()]
    defects = [repr(defect) for defect in read.defects]
    return {"headers": headers, "text": part("plain"), "html": part("html"), "defects": defects}


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        order = orders.now
        if order[0] == "rcpt" and (len(order) < 3 or order[2] == address):
            return f"{order[1]} told to"
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(self, server, session, envelope):
        order = orders.now
        tell(
            got={
                "from": envelope.mail_from,
                "to": envelope.rcpt_tos,
                "letter": letter(envelope.content),
                "tls": session.ssl is not None or TLS == "implicit",
                "user": session.auth_data,
                "order": " ".join(order),
            }
        )
        if order[0] == "data":
            return f"{order[1]} told to"
        if order[0] == "slow":
            await asyncio.sleep(float(order[1]))
        if order[0] == "close":
            server.transport.abort()
            return "421 gone"
        return "250 taken"


def login(server, session, envelope, mechanism, data):
    fits = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=fits, handled=False, auth_data=data.login.decode())


def session():
    return SMTP(
        Handler(),
        hostname="mail.test",
        tls_context=context() if TLS == "starttls" else None,
        require_starttls=TLS == "starttls",
        authenticator=login if USER else None,
        auth_required=USER is not None,
        auth_require_tls=TLS == "starttls",
        loop=loop,
    )


class Door:
    def __init__(self, port):
        self.port, self.server = port, None

    def obey(self, order):
        asyncio.run_coroutine_threadsafe(self.turn(order), loop).result()

    async def turn(self, order):
        if order == ["down"] and self.server:
            self.server.close()
            self.server = None
        elif order != ["down"] and not self.server:
            secured = context() if TLS == "implicit" else None
            self.server = await loop.create_server(session, sock=self.port.open(), ssl=secured)


loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
port = Port()
door = Door(port)
orders = Orders(door.obey)
door.obey(["ok"])
tell(ready=port.number)
orders.read()
