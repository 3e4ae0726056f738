"""Each record of job-events ends in exactly one of commands and rejects, also when the intake is killed in between."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.acceptance import dumps
from tests.acceptance.real_stack import RoleProcess, wait_for
from tests.oracle.records import decode
from waterclock.log.kafka_topics import ensure_topics
from waterclock.stack.servers import start_kafka
from waterclock.wire.names import Names, topic_specs

pytestmark = pytest.mark.servers

NAMES = Names()
SHARDS = 4
KILLS = 9
ABORTED = 100
KEPT = 900
UNDER_WAY = 60
"""So many of a wave's records have gone on when the kill comes: the intakes are in the middle of their rounds."""

SEED = 7


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    server = start_kafka(tmp_path / "kafka")
    try:
        ensure_topics(server.address, topic_specs(NAMES, SHARDS))
        yield server.address
    finally:
        server.stop()


def _send(producer: Producer, dice: Random, number: int) -> None:
    """Every third is bad; some come in transactions that are aborted, which must leave no trace."""
    job = {"name": f"job-{number}" if number % 3 else "BAD", "handler": "demo.ping", "every": "1h"}
    producer.produce(NAMES.job_events, json.dumps(job).encode(), partition=dice.randrange(SHARDS))


class Forwarded:
    """How far the topics that an intake writes have grown."""

    def __init__(self, bootstrap: str) -> None:
        self._reader = dumps.reader(bootstrap, committed=False)
        self._places = [TopicPartition(topic, at) for topic in (NAMES.commands, NAMES.rejects) for at in range(SHARDS)]

    def by_now(self) -> int:
        return sum(self._reader.get_watermark_offsets(place, timeout=5)[1] for place in self._places)

    def reaches(self, count: int) -> bool:
        return self.by_now() >= count


def _send_a_wave(producer: Producer, dice: Random) -> int:
    """So many records become readable at one instant; some were aborted before them."""
    for count in (ABORTED, KEPT):
        producer.begin_transaction()
        for number in range(count):
            _send(producer, dice, number)
        producer.abort_transaction(10) if count == ABORTED else producer.commit_transaction(10)
    return KEPT


def _fates(bootstrap: str) -> Counter[tuple[int, int]]:
    """By source coordinates, how often a record went on."""
    fates: Counter[tuple[int, int]] = Counter()
    for record in dumps.dump(bootstrap, NAMES.commands):
        _, command = decode(record["value"])
        _, partition, offset = command["command_id"].split("/")
        fates[int(partition), int(offset)] += 1
    for record in dumps.dump(bootstrap, NAMES.rejects):
        _, reject = decode(record["value"])
        fates[reject["source"]["partition"], reject["source"]["offset"]] += 1
    return fates


def test_a_record_goes_on_once_however_often_the_intake_is_killed(bootstrap: str, tmp_path: Path) -> None:
    dice = Random(SEED)
    env = {"WATERCLOCK_KAFKA__BOOTSTRAP": bootstrap, "WATERCLOCK_INTAKE__ROUND_RECORDS": "20"}
    intakes = [
        RoleProcess("intake", name, env, tmp_path / f"{name}.log", tmp_path / f"{name}.ready")
        for name in ("intake-1", "intake-2")
    ]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "sender", "linger.ms": 1})
    producer.init_transactions(10)
    forwarded = Forwarded(bootstrap)
    sent = 0
    try:
        for intake in intakes:
            intake.start()
        for intake in intakes:
            intake.wait_ready()
        for victims in ([intakes[:1], intakes[1:], intakes] * KILLS)[:KILLS]:
            under_way = forwarded.by_now() + UNDER_WAY
            sent += _send_a_wave(producer, dice)
            wait_for(partial(forwarded.reaches, under_way), "the intakes inside of the wave", every_s=0.001)
            time.sleep(dice.uniform(0.0, 0.01))  # somewhere inside of a round
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.start()
        wait_for(
            lambda: dumps.unread(bootstrap, NAMES.group("intake"), [NAMES.job_events]) == 0,
            "job-events read",
            every_s=0.3,
        )
        kept = {(r["partition"], r["offset"]) for r in dumps.dump(bootstrap, NAMES.job_events)}
        fates = _fates(bootstrap)
        assert len(kept) == sent
        assert {place: n for place, n in fates.items() if n != 1} == {}
        assert set(fates) == kept
        torn = [
            dumps.aborted(bootstrap, topic, dumps.dump(bootstrap, topic)) for topic in (NAMES.commands, NAMES.rejects)
        ]
        assert any(torn), "no kill hit an open round: nothing was shown"
    finally:
        for intake in intakes:
            if intake.process is not None:
                intake.stop()
