"""Handlers that call the sink outside and emit records; the job's payload says how long they take and what goes wrong.

    {"shortest_s": 1.0, "longest_s": 2.0, "emits": 2, "fails": 1, "poison": "segv", "stops": true, "calls": false,
     "heeds": true}

Each attempt waits a part of its time, calls the sink once, waits the rest, emits, and returns. How long, and where in
it the call stands, follows from run id and attempt, so a seed's run can be told again. ``SINK_PORT`` names the sink,
``OUTPUTS_TOPIC`` where records go, ``STOP_FOLDER`` where orders to stop lie (``zombie_worker.py``).
"""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import http.client
import json
import os
import threading
import time
from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import Any, NamedTuple

from tests.acceptance import stopping
from waterclock import App
from waterclock.app import Context

app = App()

_SECRET = b64decode(os.environ.get("SINK_SECRET", "").removeprefix("whsec_"))
_PORT = int(os.environ.get("SINK_PORT", "0"))
_OUTPUTS = os.environ.get("OUTPUTS_TOPIC", "")
_LOOK_EVERY_S = 0.05
_GROWS_BY = 64 << 20
_ROOM_ABOVE = 512 << 20
_ANSWER_WITHIN_S = 30.0


class PlannedFailure(Exception):
    """This attempt was to fail."""


class _Plan(NamedTuple):
    """What one attempt does, in this order; both waits are there so that kills land on either side of its call."""

    before_s: float
    after_s: float
    emits: int
    fails: int
    poison: str
    stops: bool
    calls: bool
    heeds: bool


def _plan(context: Context) -> _Plan:
    asked: dict[str, Any] = json.loads(context.payload or b"{}")
    shortest_s, longest_s = float(asked.get("shortest_s", 0.0)), float(asked.get("longest_s", 0.0))
    whole_s = shortest_s + duration_s(context.run_id, context.attempt, longest_s - shortest_s)
    before = _drawn(f"{context.run_id}/{context.attempt}/before")
    return _Plan(
        before * whole_s,
        (1.0 - before) * whole_s,
        int(asked.get("emits", 0)),
        int(asked.get("fails", 0)),
        str(asked.get("poison", "")),
        bool(asked.get("stops", False)),
        bool(asked.get("calls", True)),
        bool(asked.get("heeds", False)),
    )


def duration_s(run_id: str, attempt: int, longest_s: float) -> float:
    """How long this attempt takes: from 0 to ``longest_s``, always the same."""
    return longest_s * _drawn(f"{run_id}/{attempt}")


def _drawn(name: str) -> float:
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32


@app.handler("calls.async")
async def asynchronous(context: Context) -> str:
    plan = _plan(context)
    await _wait_async(context, plan, plan.before_s)
    if plan.calls:
        await _call_async(context, _body(context, plan))
    await _wait_async(context, plan, plan.after_s)
    return _end(context, plan)


async def _wait_async(context: Context, plan: _Plan, wait_s: float) -> None:
    """Wait; one that heeds looks every now and then whether it should stop."""
    until_s = time.monotonic() + wait_s
    while plan.heeds and time.monotonic() < until_s - _LOOK_EVERY_S:
        await asyncio.sleep(_LOOK_EVERY_S)
        context.check()
    await asyncio.sleep(max(0.0, until_s - time.monotonic()))


# Handlers that sleep: that is their work, of the length that the plan says.


@app.handler("calls.sync")
def synchronous(context: Context) -> str:
    plan = _plan(context)
    time.sleep(plan.before_s)
    if plan.calls:
        _call(context, _body(context, plan))
    time.sleep(plan.after_s)
    return _end(context, plan)


@app.handler("calls.stopped")
def stopped(context: Context) -> str:
    """Emits, may be stopped, calls. One that was stopped returns as soon as it wakes, its call on its way meanwhile.

    So outcome and records are ready when the round thread wakes. In a thread, because nobody can end it there: an async
    handler whose lease is over is cancelled before it says anything.
    """
    plan = _plan(context)
    time.sleep(plan.before_s)
    _emit(context, plan)
    body = _body(context, plan)
    if plan.stops and stopping.in_a_handler(context.run_id, context.attempt):
        threading.Thread(target=_call, args=(context, body), daemon=True).start()
        return "done"
    _call(context, body)
    time.sleep(plan.after_s)
    return "done"


def _end(context: Context, plan: _Plan) -> str:
    if context.attempt <= plan.fails:
        raise PlannedFailure(f"attempt {context.attempt} of {plan.fails} that fail")
    if plan.poison:
        _POISONS[plan.poison]()
    _emit(context, plan)
    return "done"


def _emit(context: Context, plan: _Plan) -> None:
    for number in range(plan.emits):
        context.emit(_OUTPUTS, context.job_id, f"{context.run_id} {number}")


# Calling the sink -----------------------------------------------------------------------------------------------------


def _body(context: Context, plan: _Plan) -> bytes:
    """An order; later attempts of a handler that is stopped order nothing, so that their fence stands alone."""
    if plan.stops and context.attempt > 1:
        return b'{"note": "looked again"}'
    return json.dumps({"customer": context.run_id}).encode()


def _headers(context: Context, body: bytes) -> dict[str, str]:
    sent_at = str(int(time.time()))
    mac = hmac.digest(_SECRET, f"{context.idempotency_key}.{sent_at}.".encode() + body, "sha256")
    return {
        "webhook-id": context.idempotency_key,
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{b64encode(mac).decode()}",
        "Idempotency-Key": context.idempotency_key,
        "Waterclock-Run-Id": context.run_id,
        "Waterclock-Fence": str(context.fence),
        "Waterclock-Attempt": str(context.attempt),
    }


_of_this_thread = threading.local()


def _call(context: Context, body: bytes) -> None:
    """Plain http.client, one connection for each thread; a broken one is not tried again: the attempt fails."""
    connection = getattr(_of_this_thread, "connection", None)
    if connection is None:
        connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=_ANSWER_WITHIN_S)
        _of_this_thread.connection = connection
    try:
        connection.request("POST", "/", body, _headers(context, body))
        connection.getresponse().read()
    except BaseException:
        _of_this_thread.connection = None
        connection.close()
        raise


_idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def _call_async(context: Context, body: bytes) -> None:
    """The same without a thread; connections are kept, as all async handlers run on one loop."""
    reader, writer = _idle.pop() if _idle else await asyncio.open_connection("127.0.0.1", _PORT)
    try:
        lines = "".join(f"{name}: {value}\r\n" for name, value in _headers(context, body).items())
        writer.write(f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _ANSWER_WITHIN_S)
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
    except BaseException:
        writer.close()
        raise
    _idle.append((reader, writer))


# Poison ---------------------------------------------------------------------------------------------------------------


def _segv() -> None:
    ctypes.string_at(0)


def _grow() -> None:
    """Take memory until somebody outside ends this process, as the kernel's killer would."""
    kept = []
    while True:
        kept.append(b"\xff" * _GROWS_BY)
        time.sleep(0.05)  # slowly enough to be ended before the machine is full


def _abort() -> None:
    """Run against a limit of memory, and do what C++ does when an allocation fails."""
    import resource  # noqa: PLC0415 - here alone

    used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10  # noqa: PTH123, SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM_ABOVE, resource.RLIM_INFINITY))
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    while libc.malloc(_GROWS_BY):
        pass
    libc.abort()


_POISONS = {"segv": _segv, "grow": _grow, "abort": _abort}
