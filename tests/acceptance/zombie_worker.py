"""A worker whose producer can be stopped between produce and commit: ``python -m tests.acceptance.zombie_worker``.

The role itself is the product's, unchanged; only the commit of its Kafka producer is wrapped: where a stop is ordered
and the round carries records of a handler, they are flushed (they stand in the log, uncommitted), then the process
stops, and only afterwards is the real commit called.
"""

from __future__ import annotations

import os

from waterclock.workers.__main__ import run

from tests.acceptance import stopping
from waterclock.app import load_app
from waterclock.log.kafka_producer import FollowedTicket, KafkaProducer
from waterclock.log.port import Outgoing
from waterclock.settings import load_settings

_OUTPUTS = os.environ.get("OUTPUTS_TOPIC", "")
_FLUSH_S = 5.0


class StoppableProducer(KafkaProducer):
    """The real producer, with a place to stop."""

    def begin(self) -> None:
        self._effects: list[str] = []
        super().begin()

    def append(self, message: Outgoing) -> None:
        self._note(message)
        super().append(message)

    def append_tracked(self, message: Outgoing) -> FollowedTicket:
        self._note(message)
        return super().append_tracked(message)

    def commit(self, timeout_s: float) -> None:
        if stopping.before_a_commit(self._effects):
            self.flush(_FLUSH_S)
            stopping.at_the_commit(self._effects)
        super().commit(timeout_s)

    def _note(self, message: Outgoing) -> None:
        if message.topic == _OUTPUTS:
            self._effects.append(dict(message.headers)["ce_id"].decode())


def work() -> None:
    """Run the worker with that producer in the real one's place."""
    from waterclock.log import kafka  # noqa: PLC0415 - its name for the producer is what is replaced

    kafka.KafkaProducer = StoppableProducer  # type: ignore[misc]
    chosen = load_settings()
    run(load_app(chosen.worker.app), chosen)


if __name__ == "__main__":
    work()
