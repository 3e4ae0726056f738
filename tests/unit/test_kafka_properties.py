"""What every client of ours is told, whatever an operator adds."""

from __future__ import annotations

from waterclock.log.kafka_properties import Properties
from waterclock.log.port import Isolation

_LONGEST_SILENCE_MS = 20_000


def test_no_client_waits_a_minute_for_a_broker_that_fell_silent() -> None:
    made = Properties("nowhere:1", client_id="c", transaction_timeout_s=10, session_timeout_s=10, extra={})
    for conf in (made.member("g", "i"), made.member("g", None), made.reader(Isolation.COMMITTED)):
        assert conf["socket.timeout.ms"] <= _LONGEST_SILENCE_MS
