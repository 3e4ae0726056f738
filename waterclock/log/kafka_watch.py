"""What a Kafka client says in the background: its log lines, and whether an answer may have been lost.

Why: librdkafka repeats a request by itself when a connection breaks, an EndTxn too, and a late copy of it can end the
*next* transaction (no KIP-890 part 2 in this client). So a producer that lost a connection must be replaced. The
client says so in two places, and neither is enough: ``error_cb`` hears of refused connections and of all brokers
down; a connection that the other side closed with requests in flight appears **only as a log line** (facility FAIL,
level INFO or WARNING; requests that timed out: REQTMOUT). Both are heard here.

Must hold: nothing here raises; the client calls it in the middle of a poll, and an exception there loses the records
that the poll has taken. How it fails: the client leaves out a line equal to the last one of the same broker within 30
s. So one closed connection is enough for good (``closings``, also one from before the init): the producer is
replaced, and the new one starts without that memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from .kafka_errors import ALL_DOWN, CONNECTION_LOST, NOT_LET_IN, error_of

_FAILURES = frozenset({"FAIL", "REQTMOUT"})

_logger = logging.getLogger("waterclock.kafka")


class Watch:
    """Given to one client as its ``logger`` (which calls ``log`` alone) and its ``error_cb``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.losses = 0
        self.closings = 0
        self.fatal: KafkaError | None = None
        self._down: KafkaError | None = None
        self.refusal: KafkaError | None = None
        """Why a broker did not let us in, the last time that one said so."""

    def log(self, level: int, form: str, *parts: object) -> None:
        """One log line of the client; the facility is the first of ``parts``."""
        if parts and parts[0] in _FAILURES:
            self.losses += 1
            self.closings += level < logging.ERROR  # a connection that never came about is an ERROR
        _logger.log(level, f"%s: {form}", self._name, *parts)

    def serve(self, poll: Callable[[float], object], timeout_s: float) -> None:
        """Poll a producer for its reports and news. A fatal error comes as an exception from there, once: kept."""
        try:
            poll(timeout_s)
        except KafkaException as raised:
            self.on_error(error_of(raised))

    def on_error(self, error: KafkaError) -> None:
        """The client's ``error_cb``."""
        if error.fatal():
            self.fatal = error
        elif error.code() in CONNECTION_LOST:
            self.losses += 1
            if error.code() == ALL_DOWN:
                self._down = error
        elif error.code() in NOT_LET_IN:
            self.refusal = error
        _logger.warning("%s: %s", self._name, error)

    def take_down(self) -> KafkaError | None:
        """The report that no broker is left, once."""
        down, self._down = self._down, None
        return self.refusal if down is not None and self.refusal is not None else down
