"""Commands as any program would send them: a plain producer, keys to partitions as Java's default partitioner does.

The verbs in flight come from one seeded dice; nobody waits for an answer, and some are refused by right (a pause of a
job that was deleted): the oracle knows which.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from random import Random

from confluent_kafka import Producer

from tests.acceptance import dumps
from tests.acceptance.real_stack import RealStack
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Cron, Every, JobSpec, Once, Tier
from waterclock.wire.messages import command_message

_REPEATED_SHARE = 0.2
_REPEATED_WITHIN = 40
"""Orders back that a repeat may reach: so that some of them meet a successor."""

_VERBS = {
    CommandKind.UPDATE: 5,
    CommandKind.PAUSE: 4,
    CommandKind.RESUME: 5,
    CommandKind.DELETE: 2,
    CommandKind.CREATE: 3,
    CommandKind.TRIGGER: 4,
}


class Orders:
    """Sends commands to the stack's ``commands``."""

    def __init__(self, stack: RealStack) -> None:
        self._names = stack.names
        properties = {"partitioner": "murmur2_random", "enable.idempotence": True}
        self._producer = Producer(dumps.client(stack.bootstrap) | properties)
        self.sent = 0

    def send(
        self,
        kind: CommandKind,
        job_id: str,
        spec: JobSpec | None = None,
        payload: bytes | None = None,
        *,
        key: str = "",
        answer: bool = False,
        run_id: str = "",
    ) -> None:
        """One command, under an idempotency key where one is given."""
        self.sent += 1
        at, command_id = time.time_ns() // 1_000, f"check-{self.sent}"
        command = Command(
            kind,
            job_id,
            command_id,
            "check",
            at,
            spec=spec,
            payload=payload,
            idempotency_key=key,
            answer=answer,
            run_id=run_id,
        )
        message = command_message(self._names, command)
        self._producer.produce(
            message.topic, message.value, message.key, headers=list(message.headers), on_delivery=_must_arrive
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Until the broker has all of them."""
        if self._producer.flush(30.0):
            raise TimeoutError("commands were not acknowledged within 30 s")


class Churn:
    """Edits, pauses, resumes, deletes and triggers of ``job_ids``, at most ``per_s`` a second.

    Some are given again under their key, at once or a while later: the second time they must change nothing.
    """

    def __init__(
        self, orders: Orders, job_ids: Sequence[str], dice: Random, per_s: float, handler: str = "demo.ping"
    ) -> None:
        self._orders = orders
        self._job_ids = job_ids
        self._dice = dice
        self._every_s = 1.0 / per_s
        self._next_s = time.monotonic()
        self._handler = handler
        self._lately: deque[tuple[CommandKind, str, JobSpec | None, str]] = deque(maxlen=_REPEATED_WITHIN)

    def go_on(self) -> None:
        """Send what is due by now; what a long absence missed is left out."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = max(self._next_s + self._every_s, now_s - 1.0)
        kind = self._dice.choices(list(_VERBS), weights=list(_VERBS.values()))[0]
        job_id = self._dice.choice(self._job_ids)
        spec = self._any_spec() if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None
        order = (kind, job_id, spec, f"key-{self._orders.sent}")
        self._lately.append(order)
        self._send(order)
        if self._dice.random() < _REPEATED_SHARE:
            self._send(self._dice.choice(self._lately))

    def _send(self, order: tuple[CommandKind, str, JobSpec | None, str]) -> None:
        kind, job_id, spec, key = order
        self._orders.send(kind, job_id, spec, key=key, answer=True)

    def _any_spec(self) -> JobSpec:
        dice, now = self._dice, time.time_ns() // 1_000
        schedule = dice.choice(
            [
                Every(dice.choice([1, 2, 5, 10]) * US_PER_S, None),
                Every(dice.choice([2, 3, 10]) * US_PER_S, now // US_PER_S * US_PER_S),
                Cron("* * * * *"),
                Once(now + dice.randrange(-2, 20) * US_PER_S),
            ]
        )
        return JobSpec(self._handler, schedule, dice.choice(list(Tier)), payload=b"%d" % dice.randrange(1_000))


def _must_arrive(error: object, _message: object) -> None:
    if error is not None:
        raise RuntimeError(f"a command was not acknowledged: {error}")
