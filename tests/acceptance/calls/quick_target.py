"""A receiver that costs next to nothing, in a process of its own: counts calls, and checks some of them in full.

``python -m tests.acceptance.calls.quick_target <secret>`` prints its port, serves POSTs, and answers ``GET /counts``
with what it saw. Every 50th signed call is verified by the signature scheme's own package, and its key and fence are
looked at; the fences of one job must be there and numbers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import uvloop
from standardwebhooks import Webhook

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"
_CHECK_EVERY = 50


class Counts:
    """What arrived so far."""

    def __init__(self, secret: str) -> None:
        self.webhook = Webhook(secret)
        self.calls = self.signed = self.checked = self.bad = self.connections = 0

    def told(self) -> dict[str, int]:
        names = ("calls", "signed", "checked", "bad", "connections")
        return {name: getattr(self, name) for name in names}


class Connection(asyncio.Protocol):
    """Just enough HTTP/1.1: requests with Content-Length, one after the other."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._counts.connections += 1

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end]
            length = _length(head)
            if len(self._data) < end + 4 + length:
                return
            body = self._data[end + 4 : end + 4 + length]
            self._data = self._data[end + 4 + length :]
            self._transport.write(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        counts = self._counts
        if head.startswith(b"GET /counts"):
            text = json.dumps(counts.told()).encode()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
        counts.calls += 1
        if b"webhook-signature:" in head:
            counts.signed += 1
            if counts.signed % _CHECK_EVERY == 0:
                self._check(head, body)
        return _OK

    def _check(self, head: bytes, body: bytes) -> None:
        lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
        headers = {name.lower(): value.strip() for name, _, value in lines}
        self._counts.checked += 1
        try:
            self._counts.webhook.verify(body, headers)
            assert headers["idempotency-key"] == headers["webhook-id"]
            assert int(headers["waterclock-fence"]) >= 1 << 48
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it counts
            self._counts.bad += 1
            print(f"bad call: {error!r}", file=sys.stderr)


def _length(head: bytes) -> int:
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def serve(secret: str) -> None:
    counts = Counts(secret)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counts), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while os.getppid() != 1:  # an orphan ends
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
