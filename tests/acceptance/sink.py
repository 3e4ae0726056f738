"""The effect sink: the world outside, a process of its own. It runs the receiver that we publish and keeps a ledger.

``python -m tests.acceptance.sink LEDGER PORT_FILE``. Each call that arrives becomes one JSON line, durable before the
call is answered: run id, attempt, token, key, hash of the body, whether the published check (``docs/receivers/python``)
let its effect happen, and when, by the sink's own clocks. Dies with whoever started it. A call that breaks off before
its last byte is no arrival: nothing was received that could take effect.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tests.acceptance.real_stack import wait_for
from waterclock.stack import leash as leash_program

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
"""What calls are signed with. No secret to anybody: it signs calls to a sink on loopback."""

_RECEIVER = Path(__file__).parents[2] / "docs" / "receivers" / "python" / "receiver.py"
_DURABLE_EVERY_S = 0.02
_HEAD_MAX = 16_384
_BODY_MAX = 1 << 20


class Sink:
    """The sink's process, seen from a check."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "sink.jsonl"
        place = folder / "sink.port"
        place.unlink(missing_ok=True)
        leash = [sys.executable, "-I", "-S", leash_program.__file__, str(os.getpid())]
        module = [sys.executable, "-m", "tests.acceptance.sink", str(self.ledger), str(place)]
        with (folder / "sink.log").open("ab") as log:
            self._process = subprocess.Popen([*leash, *module], stdout=log, stderr=log)
        self.port = int(wait_for(lambda: place.exists() and place.read_text(), "the sink's port"))

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def lines(self) -> list[dict[str, Any]]:
        """Every arrival so far. A last line that is still being written is left out."""
        whole = self.ledger.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_receiver() -> ModuleType:
    """The receiver as we publish it: a file of the docs, not a copy."""
    spec = importlib.util.spec_from_file_location("published_receiver", _RECEIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Desk:
    """Judges calls by the published check, and writes them down."""

    def __init__(self, ledger: Path) -> None:
        self._receiver = load_receiver()
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(self._receiver.TABLES)
        self._booked = 0
        self._file = ledger.open("ab", buffering=0)
        self._lines: list[str] = []
        self._answers: list[tuple[asyncio.Transport, bytes]] = []

    def take(self, transport: asyncio.Transport, headers: Mapping[str, str], body: bytes) -> None:
        """One call. Its answer goes out once its line is durable."""
        try:
            status, answer = self._receiver.receive(self._db, SECRET, headers, body, time.time())
        except (ValueError, KeyError, TypeError):
            status, answer = 400, "a header is missing or no number"
        invoice = int(json.loads(answer)["invoice"]) if status == 200 else 0
        booked = invoice > self._booked
        self._booked = max(self._booked, invoice)
        self._lines.append(json.dumps(_line(headers, body, status, booked)))
        text = answer.encode()
        head = f"HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        self._answers.append((transport, head.encode() + text))

    async def keep(self) -> None:
        """Make lines durable, many at a time, then answer their calls."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_DURABLE_EVERY_S)
            if not self._lines:
                continue
            lines, self._lines = self._lines, []
            answers, self._answers = self._answers, []
            os.write(self._file.fileno(), ("\n".join(lines) + "\n").encode())
            await loop.run_in_executor(None, os.fsync, self._file.fileno())
            for transport, answer in answers:
                if not transport.is_closing():
                    transport.write(answer)


def _line(headers: Mapping[str, str], body: bytes, status: int, booked: bool) -> dict[str, Any]:
    return {
        "run_id": headers.get("waterclock-run-id", headers.get("webhook-id", "")),
        "attempt": int(headers.get("waterclock-attempt", "0")),
        "token": int(headers.get("waterclock-fence", "0")),
        "key": headers.get("idempotency-key", ""),
        "body": hashlib.sha256(body).hexdigest(),
        "status": status,
        "booked": booked,
        "at": time.time_ns() // 1_000,
        "monotonic_ns": time.monotonic_ns(),
    }


class Call(asyncio.Protocol):
    """One connection: requests one after the other, each with a content length."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bytes = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._bytes += data
        while b"\r\n\r\n" in self._bytes:
            head, _, rest = self._bytes.partition(b"\r\n\r\n")
            pairs = (line.split(":", 1) for line in head.decode("latin-1").split("\r\n")[1:])
            headers = {name.strip().lower(): value.strip() for name, value in pairs}
            length = int(headers.get("content-length", "0"))
            if length > _BODY_MAX:
                self._transport.abort()
                return
            if len(rest) < length:
                return
            self._bytes = rest[length:]
            self._desk.take(self._transport, headers, rest[:length])
        if len(self._bytes) > _HEAD_MAX + _BODY_MAX:
            self._transport.abort()


async def _serve(ledger: Path, place: Path) -> None:
    desk = Desk(ledger)
    server = await asyncio.get_running_loop().create_server(lambda: Call(desk), "127.0.0.1", 0, backlog=1_024)
    unfinished = place.with_suffix(".new")
    unfinished.write_text(str(server.sockets[0].getsockname()[1]))
    unfinished.replace(place)
    await desk.keep()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
