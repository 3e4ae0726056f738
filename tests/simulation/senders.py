"""Other services, which write job events: good ones and bad ones, in a transaction of their own or plainly.

What they sent goes into the client history with the place where it stands. Must hold: the same order makes the same
bytes each time, so a repeat is one.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from waterclock.log.memory import MemoryLog
from waterclock.log.port import Headers, Outgoing
from waterclock.model.document import spec_to_document
from waterclock.model.ids import Instant
from waterclock.model.job import Command
from waterclock.model.job_event import event_of
from waterclock.wire.codec import encode_job_event
from waterclock.wire.names import Names

from .history import History, Line
from .people import Order

ACME_EVENTS = "waterclock.job-events.acme"
OWN_TENANT, OTHER_TENANT = "t", "acme"
GARBAGE_KINDS = ("bytes", "empty", "cut", "strange json", "no such verb", "huge")
SHOP = "shop.orders"
"""A topic of somebody else's, whose records start jobs of one tenant."""
SOLD = "source record"
_SOLD_TYPES = ("placed", "placed", "returned")
_HUGE = 300_000
"""Over the cap of what is decoded, and under what a broker takes."""


def tenants_of(names: Names) -> dict[str, str]:
    """Whose jobs the records of each topic are about."""
    return {names.job_events: OWN_TENANT, ACME_EVENTS: OTHER_TENANT}


class Garbage(NamedTuple):
    """At tick ``at`` somebody sends what is no job event. ``kind``: one of ``GARBAGE_KINDS``."""

    at: int
    kind: str
    tenant: str
    pick: int


class Senders:
    """Of one play."""

    def __init__(self, log: MemoryLog, names: Names, history: History, pools: tuple[str, ...]) -> None:
        self._log = log
        self._names = names
        self._history = history
        self._pools = pools
        self._topics = {tenant: topic for topic, tenant in tenants_of(names).items()}
        self._count = 0

    def give(self, order: Order, now: Instant, tick: int) -> str:
        """Send an order as a job event; answers what people would say of it."""
        tenant = order.job_id.partition(":")[0]
        value, headers = _event(order, now)
        if order.has_id:
            headers = (*headers, ("ce_id", order.command_id.encode()))
        message = Outgoing(self._topics[tenant], order.job_id.encode(), value, headers)
        line = Line(order.command_id, order.door, tenant, order.job_id, order.kind.value, order.key, tick, body=value)
        line.is_sound = order.spec is None or order.spec.pool in self._pools
        return self._send(message, line, tick, order.fate)

    def throw(self, garbage: Garbage, tick: int) -> str:
        """Send what nobody can read; or a record that is none of ours, and starts jobs."""
        if garbage.kind == SOLD:
            return self._sell(garbage)
        self._count += 1
        value = _garbage(garbage)
        key = b"" if garbage.pick % 3 == 0 else f"{garbage.tenant}:job{garbage.pick % 4}".encode()
        message = Outgoing(self._topics[garbage.tenant], key, value, (("x-pick", str(garbage.pick).encode()),))
        line = Line(f"g{self._count}", garbage.kind, garbage.tenant, "", "", "", tick, body=value, is_sound=False)
        return self._send(message, line, tick, "")

    def _sell(self, garbage: Garbage) -> str:
        kind = _SOLD_TYPES[garbage.pick % len(_SOLD_TYPES)]
        value = json.dumps({"type": kind, "pick": garbage.pick}).encode()
        appender = self._log.appender()
        ticket = appender.append(Outgoing(SHOP, str(garbage.pick).encode(), value, (("type", kind.encode()),)))
        appender.close()
        return f"sold {kind} -> {ticket.partition}/{ticket.offset}"

    def _send(self, message: Outgoing, line: Line, tick: int, fate: str) -> str:
        self._history.call(line)
        if not fate:
            appender = self._log.appender()
            ticket = appender.append(message)
            appender.close()
        else:  # the caller's own transaction: both of its records, or neither
            self._count += 1
            producer = self._log.producer(f"foreign-{self._count}")
            producer.init(1.0)
            producer.begin()
            ticket = producer.append_tracked(message)
            if fate == "commits":
                producer.commit(1.0)
            elif fate == "aborts":
                producer.abort(1.0)
            # "hangs": the brokers abort it after its time-out
        assert ticket.offset is not None
        line.place = (message.topic, ticket.partition, ticket.offset)
        line.close(tick, "ok" if fate in ("", "commits") else "fail")
        return f"{line.op} {line.door} {fate} {line.kind} {line.job_id} -> {line.place}"


def draw_sales(rng: random.Random, horizon: int) -> list[Garbage]:
    """What a shop sells in a seed."""
    count = rng.choice([3, 10, 30])
    return [Garbage(rng.randrange(horizon), SOLD, OWN_TENANT, rng.randrange(1 << 16)) for _ in range(count)]


def draw_garbage(rng: random.Random, horizon: int, first: int) -> list[Garbage]:
    """What bad senders do in a seed."""
    kinds = [kind for kind in GARBAGE_KINDS if kind != "huge" or rng.random() < 0.2]
    tenants = [OWN_TENANT, OWN_TENANT, OTHER_TENANT]
    return [
        Garbage(rng.randrange(first, horizon), rng.choice(kinds), rng.choice(tenants), rng.randrange(1 << 16))
        for _ in range(rng.choice([0, 2, 6]))
    ]


def _event(order: Order, now: Instant) -> tuple[bytes, Headers]:
    command = Command(order.kind, order.job_id, order.command_id, "", now, spec=order.spec, idempotency_key=order.key)
    if order.door == "avro":
        return encode_job_event(event_of(command)), ()
    document = {"kind": order.kind.value.lower(), "name": order.job_id.partition(":")[2]}
    document |= {"idempotency_key": order.key} if order.key else {}
    document |= {} if order.spec is None else spec_to_document(order.spec)
    return json.dumps(document, sort_keys=True).encode(), (("content-type", b"application/json"),)


def _garbage(garbage: Garbage) -> bytes:
    if garbage.kind == "huge":
        return b"\xc3\x01" + b"x" * _HUGE
    return {
        "bytes": garbage.pick.to_bytes(8, "big") * 3,
        "empty": b"",
        "cut": b"\xc3\x01\x00\x01\x02",
        "strange json": b'{"name": 7}',
        "no such verb": b'{"kind": "explode", "name": "job0"}',
    }[garbage.kind]
