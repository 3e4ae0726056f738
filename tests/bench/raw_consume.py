"""The limit of a worker: work records consumed, STARTED and SUCCEEDED produced, offsets committed; no logic between.

``python -m tests.bench.raw_consume '{"bootstrap": ..., "runs": 100000, "round": 1000, ...}'``, a process of its own as
a worker is. ``transactional`` false: at least once (produce, flush, then commit). ``echo`` true: the events name the
run that was read, so that somebody outside can tell its delay; it begins at the end then, and goes on until it is
ended. Prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from tests.bench.raw_records import WORK, OfRun, of_many, properties

ROOT = Path(__file__).resolve().parents[2]
_WORTH_A_ROUND_S = 0.005
_PATTERNS = 5_000
"""Different ones: the same bytes again and again would hardly need room once they are packed."""


class RawConsumer:
    """One group member and its producer."""

    def __init__(self, bootstrap: str, group: str, *, transactional: bool, begins: str) -> None:
        given = properties(bootstrap, "raw-consume")
        self._transactional = transactional
        self._consumer = Consumer({**given.member(group, None), "auto.offset.reset": begins})
        self._consumer.subscribe([WORK])
        self._producer = Producer(given.transactional(group) if transactional else given.appending())
        if transactional:
            self._producer.init_transactions(30)

    def take(self, limit: int) -> list[Message]:
        """What there is, at most so much."""
        first = self._consumer.poll(0.05)
        batch = [first, *self._consumer.consume(limit - 1, _WORTH_A_ROUND_S)] if first is not None else []
        return [message for message in batch if message.error() is None]

    def round(self, events: Sequence[tuple[bytes, bytes, list[tuple[str, bytes]], str]]) -> None:
        """Send these (value, key, headers, topic), and commit what was read."""
        producer, consumer = self._producer, self._consumer
        if self._transactional:
            producer.begin_transaction()
        for value, key, headers, topic in events:
            producer.produce(topic, value, key, headers=headers)
        places = consumer.position(consumer.assignment())
        read = [place for place in places if place.offset >= 0]
        if self._transactional:
            producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            consumer.commit(offsets=read, asynchronous=False)


def _answers(
    batch: Sequence[Message], patterns: Iterator[OfRun], *, echo: bool
) -> list[tuple[bytes, bytes, list[Any], str]]:
    """The two events for each record; of some run's bytes, under the record's key."""
    answers = []
    for message, pattern in zip(batch, patterns, strict=False):
        key = message.key()
        for topic, value, _, headers in pattern[2:]:
            if echo:
                headers = [headers[0], message.headers()[1], *headers[2:]]  # noqa: PLW2901
            answers.append((value, key, headers, topic))
    return answers


def main(text: str) -> None:
    asked = json.loads(text)
    begins = "latest" if asked["echo"] else "earliest"
    raw = RawConsumer(asked["bootstrap"], asked["group"], transactional=asked["transactional"], begins=begins)
    patterns = cycle(of_many(_PATTERNS, time.time_ns() // 1_000))
    done, began_s, cpu_s = 0, 0.0, 0.0
    while done < asked["runs"]:
        batch = raw.take(asked["round"])
        if not batch:
            continue
        if not began_s:
            began_s, cpu_s = time.perf_counter(), time.process_time()
        raw.round(_answers(batch, patterns, echo=asked["echo"]))
        done += len(batch)
    took_s = time.perf_counter() - began_s
    print(json.dumps({"runs": done, "seconds": took_s, "cpu_s": time.process_time() - cpu_s}), flush=True)


def measure(bootstrap: str, runs: int, *, round_records: int, transactional: bool = True, group: str) -> float:
    """Runs a second of the raw loop over so many records that stand in the topic already."""
    asked = {"bootstrap": bootstrap, "runs": runs, "round": round_records, "transactional": transactional}
    done = subprocess.run(
        command({**asked, "group": group, "echo": False}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    return float(told["runs"] / told["seconds"])


def command(asked: dict[str, Any]) -> list[str]:
    """How the program is started."""
    return [sys.executable, "-m", "tests.bench.raw_consume", json.dumps(asked)]


if __name__ == "__main__":
    main(sys.argv[1])
