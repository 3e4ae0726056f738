"""The limit of a dispatcher: PENDING and work records, made before, produced in transactions with their offsets.

``python -m tests.bench.raw_produce '{"bootstrap": ..., "partitions": 4, ...}'``, a process of its own as a dispatcher
is. Either as fast as it goes for ``seconds``, or with ``jobs``, ``start_at``, ``every_us`` and ``until`` when these
runs are due, in rounds of 20 ms. Prints one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.raw_records import CURSOR, OFFSETS, OfRun, make_topics, of_many, of_run, properties

ROOT = Path(__file__).resolve().parents[2]
ROUND_RUNS = 1_000
"""A dispatcher's round has at most 2,000 records, two for each run."""
_ROUND_EVERY_S = 0.020
_PREPARED = 20_000
_WARM_UP_ROUNDS = 20


class RawProducer:
    """One transactional producer and the group whose offsets ride in its rounds."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        given = properties(bootstrap, "raw-produce")
        self._member = Consumer({**given.member("raw-produce", None), "auto.offset.reset": "earliest"})
        self._member.subscribe([OFFSETS])
        until = time.monotonic() + 30
        while len(self._member.assignment()) < partitions:
            self._member.poll(0.05)
            if time.monotonic() > until:
                raise TimeoutError("the group of the raw loop was not formed")
        self._offsets = [TopicPartition(OFFSETS, number, 0, CURSOR) for number in range(partitions)]
        self._producer = Producer(given.transactional("raw-produce"))
        self._producer.init_transactions(30)

    def round(self, runs: Sequence[OfRun]) -> None:
        """One transaction."""
        producer = self._producer
        producer.begin_transaction()
        produce = producer.produce
        for run in runs:
            for topic, value, key, headers in run[:2]:
                produce(topic, value, key, headers=headers)
        producer.send_offsets_to_transaction(self._offsets, self._member.consumer_group_metadata(), 30)
        producer.commit_transaction(30)

    def tend(self) -> None:
        """So that the group keeps its member."""
        self._member.poll(0)


def as_fast_as_it_goes(raw: RawProducer, seconds: float, round_runs: int) -> dict[str, Any]:
    """Rounds one after the other."""
    runs = of_many(_PREPARED, time.time_ns() // 1_000)
    rounds = [runs[at : at + round_runs] for at in range(0, _PREPARED, round_runs)]
    for at in range(_WARM_UP_ROUNDS):
        raw.round(rounds[at % len(rounds)])
    done, began_s, cpu_s = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < began_s + seconds:
        raw.tend()
        for each in rounds[:5]:
            raw.round(each)
            done += len(each)
    took_s = time.perf_counter() - began_s
    return {"runs": done, "seconds": took_s, "cpu_s": time.process_time() - cpu_s}


def _due(asked: dict[str, Any]) -> Iterator[tuple[int, OfRun]]:
    """(due at, records) in order. ``spread``: the jobs one after the other within an interval; else all at once."""
    jobs, every_us = asked["jobs"], asked["every_us"]
    at = asked["start_at"]
    while at < asked["until"]:
        for number in range(jobs):
            due_at = at + (number * every_us // jobs if asked["spread"] else 0)
            yield due_at, of_run(f"bench:job-{number}", due_at)
        at += every_us


def when_due(raw: RawProducer, asked: dict[str, Any]) -> dict[str, Any]:
    """Each run in the first round after it is due."""
    waiting = list(_due(asked))
    print("prepared", flush=True)
    place = rounds = 0
    while place < len(waiting):
        raw.tend()
        began_s = time.monotonic()
        now = time.time_ns() // 1_000
        end = place
        while end < len(waiting) and waiting[end][0] <= now and end - place < ROUND_RUNS:
            end += 1
        if end > place:
            raw.round([run for _, run in waiting[place:end]])
            rounds += 1
        more = end < len(waiting) and waiting[end][0] <= now
        place = end
        if not more:
            time.sleep(max(0.0005, min(_ROUND_EVERY_S, began_s + _ROUND_EVERY_S - time.monotonic())))
    return {"runs": place, "rounds": rounds}


def measure(bootstrap: str, partitions: int, seconds: float, round_runs: int = ROUND_RUNS) -> float:
    """Runs a second of the raw loop, in a process of its own."""
    make_topics(bootstrap, partitions)
    asked = {"bootstrap": bootstrap, "partitions": partitions, "seconds": seconds, "round_runs": round_runs}
    done = subprocess.run(command(asked), cwd=ROOT, capture_output=True, text=True, timeout=120 + seconds, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return float(told["runs"] / told["seconds"])


def command(asked: dict[str, Any]) -> list[str]:
    """How the program is started."""
    return [sys.executable, "-m", "tests.bench.raw_produce", json.dumps(asked)]


def main(text: str) -> None:
    asked = json.loads(text)
    raw = RawProducer(asked["bootstrap"], asked["partitions"])
    if "seconds" in asked:
        told = as_fast_as_it_goes(raw, asked["seconds"], asked["round_runs"])
    else:
        told = when_due(raw, asked)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
