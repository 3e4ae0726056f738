"""Headers as strangers write them: null values, and names that are no UTF-8, which the client cannot read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import UNREADABLE, Isolation, TopicPartition, TopicSpec
from waterclock.log.reading import read_range
from waterclock.stack.servers import start_kafka

pytestmark = pytest.mark.servers

_MANY = 2_000
"""Enough for the interpreter to specialise the call that went wrong."""


def test_headers_that_no_client_of_ours_can_read_spoil_nothing_else(tmp_path: Path) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("kcat is not installed: no other client writes such names")
    server = start_kafka(tmp_path / "kafka")
    log = KafkaLog(server.address, client_id="headers")
    try:
        ensure_topics(server.address, [TopicSpec("strange", 1, {})])
        command = [
            kcat.encode(),
            b"-P",
            b"-b",
            server.address.encode(),
            b"-t",
            b"strange",
            b"-H",
            b"a=1",
            b"-H",
            b"\xff\xfe=x",
        ]
        subprocess.run(command, input=b"hello\n" * _MANY, check=True, timeout=30)
        producer = Producer({"bootstrap.servers": server.address})
        producer.produce("strange", b"good", headers=[("nothing", None), ("text", b"b")])
        assert producer.flush(10) == 0
        place = TopicPartition("strange", 0)
        found = list(read_range(log, Isolation.COMMITTED, place, 0, log.high_watermark(place), headers=True))
        assert len(found) == _MANY + 1
        assert {(record.value, record.headers) for record in found[:-1]} == {(b"hello", UNREADABLE)}
        assert (found[-1].value, found[-1].headers) == (b"good", (("nothing", b""), ("text", b"b")))
    finally:
        log.close()
        server.stop()
