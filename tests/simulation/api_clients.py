"""People in front of the HTTP API: they call, wait, and repeat under the same key what nobody has answered.

What they saw goes into the client history. Must hold: an operation with an Idempotency-Key is repeated until it is
answered, a bounded number of times; one without a key never, because its client could not tell one job from two.
"""

from __future__ import annotations

import json
import random
from typing import Any

from waterclock.model.document import spec_to_document
from waterclock.model.job import CommandKind
from waterclock.model.time_text import format_rfc3339

from .api_process import ApiProcess, Call
from .history import History, Line
from .people import Order
from .schedule import Schedule
from .story import Story
from .tenants import token_of
from .world import World

_TRIES_MAX = 12
_WAITS_MAX = 60
_AGAIN_US = 700_000
_PATIENCE_US = 8_000_000
"""A client gives its connection up after this."""
_PATHS = {CommandKind.CREATE: ("POST", ""), CommandKind.UPDATE: ("PATCH", ""), CommandKind.DELETE: ("DELETE", "")}
_IN_FLIGHT = b"in-flight"


class ApiClients:
    """Of one play. ``busy``: how many operations are not over."""

    def __init__(self, world: World, schedule: Schedule, story: Story, rng: random.Random) -> None:
        self._world = world
        self._schedule = schedule
        self._story = story
        self._rng = rng
        self._slots = [slot for slot in world.plan.slots if slot.startswith("api")]
        self._history: History = world.history
        self.busy = 0

    def give(self, order: Order) -> None:
        """Begin an operation."""
        self.busy += 1
        self._try(order, _call_of(order), _TRIES_MAX, _WAITS_MAX)

    def _try(self, order: Order, call: Call, tries: int, waits: int) -> None:
        process = self._process()
        if process is None and waits:
            self._schedule.after(_AGAIN_US, lambda: self._try(order, call, tries, waits - 1))
            return
        if process is None or not tries:
            self._over("gives up", order)
            return
        tenant = order.caller or order.job_id.partition(":")[0]
        line = self._history.call(
            Line(order.command_id, "api", tenant, order.job_id, order.kind.value, order.key, self._schedule.tick,
                 body=call.body)
        )  # fmt: skip

        def answered(status: int, headers: dict[str, str], body: bytes) -> None:
            if line.returned_at >= 0:
                return  # the client has given this connection up
            self._take(line, status, headers, body)
            is_unknown = line.result == "info" or _IN_FLIGHT in body
            if is_unknown and order.key:
                self._story.counts["api repeated"] += 1
                self._schedule.after(_AGAIN_US, lambda: self._try(order, call, tries - 1, waits))
            else:
                self._over(f"got {status}", order)

        process.serve(call, answered)
        self._schedule.after(_PATIENCE_US, lambda: answered(0, {}, b""))

    def _take(self, line: Line, status: int, headers: dict[str, str], body: bytes) -> None:
        result = "ok" if 200 <= status < 300 else "info" if status == 0 or status >= 500 else "fail"
        line.close(self._schedule.tick, result, status=status, answer=body)
        line.is_replay = headers.get("idempotency-replayed") == "true"
        self._story.counts[f"api {result}"] += 1
        self._story.counts["api replayed"] += line.is_replay

    def _over(self, how: str, order: Order) -> None:
        self.busy -= 1
        self._story.tell(self._schedule.tick, "client", f"{order.command_id} {order.kind} {order.job_id} {how}")

    def _process(self) -> ApiProcess | None:
        """Somebody who listens, as a load balancer would find them."""
        lives = [life for slot in self._slots if (life := self._world.newest.get(slot)) is not None]
        cores = [life.core for life in lives if life.alive and not life.leaving and life.core is not None]
        core: Any = self._rng.choice(cores) if cores else None
        return core


def _call_of(order: Order) -> Call:
    method, tail = _PATHS.get(order.kind, ("POST", f"/{order.kind.value.lower()}"))
    tenant, _, name = order.job_id.partition(":")
    path = "/api/v1/jobs" + ("" if order.kind is CommandKind.CREATE else f"/{order.job_id}") + tail
    document: dict[str, Any] | None = None if order.spec is None else spec_to_document(order.spec)
    if order.kind is CommandKind.CREATE and document is not None:
        document = {"name": name, **document}
    if order.resume_at:
        document = {"resume_at": format_rfc3339(order.resume_at), "note": "a nap"}
    headers = [("authorization", f"Bearer {token_of(order.caller or tenant)}")]
    headers += [("if-match", "*")] if order.kind is CommandKind.UPDATE else []
    headers += [("idempotency-key", order.key)] if order.key else []
    headers += [("content-type", "application/json")] if document is not None else []
    body = b"" if document is None else json.dumps(document, sort_keys=True).encode()
    return Call(order.command_id, method, path, tuple(headers), body)
