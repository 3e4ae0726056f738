"""Attempts that their worker has forgotten: open in the log under a living incarnation, and not among what it holds.

A worker that has lost sight of an attempt beats on, so that no lease runs out and nobody calls the attempt lost: its
run would be RUNNING for ever. But a beat carries count and XOR of the fencing tokens that are held (design §7). Reads
topics, writes nothing.

What must hold: nothing is called forgotten that is merely on its way. So the log is read twice, with two beats of one
incarnation between, and only those attempts count that were open both times and claimed before the first beat was sent:
all of them are held when the second one is. (Both instants are by the worker's own clock.)

Limits: a worker that holds enough others hides what it has forgotten, until it has less to do. How it fails: who does
not beat is not judged here, its lease does that; a backend that does not answer is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import xor
from typing import NamedTuple, TypeAlias

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.model.errors import BackendDown, NotFound, UndecodableRecord
from waterclock.model.events import Heartbeat
from waterclock.model.fold import FoldFull
from waterclock.wire.codec import decode_heartbeat
from waterclock.wire.names import Names

from .doctor_runs import ROUTER, Seen, named, open_runs
from .finding import Finding, State, ok

CHECK = "forgotten attempts"
WATCH_S = 10.0
"""Longer than three pauses between two beats of a worker."""

_BATCH = 500
_POLL_S = 0.2

Life: TypeAlias = tuple[str, int]
"""A worker and its incarnation."""


class Beats(NamedTuple):
    """The first and the last beat of one incarnation that were heard between the two looks."""

    first: Heartbeat
    last: Heartbeat


def examine(log: Log, names: Names, clock: Clock, generation: int) -> Iterator[Finding]:
    """The finding; nothing where the topics are missing. ``generation``: that of the topics."""
    try:
        before = _open_attempts(log, names, generation)
        heard = _listen(log, names, clock, {_life(run) for run in before}) if before else {}
        after = _open_attempts(log, names, generation) if heard else []
        yield judge(before, after, heard)
    except NotFound:
        return
    except (BackendDown, FoldFull) as trouble:
        yield Finding(CHECK, State.WARN, str(trouble), "They cannot be judged now")


def judge(before: list[Seen], after: list[Seen], heard: dict[Life, Beats]) -> Finding:
    """``before``, ``after``: what was open at the two looks. A life with fewer than two beats is not in ``heard``."""
    # Tokens are offsets, so two partitions may have the same one.
    known = {(run.run_id, run.state.token) for run in before}
    lasting = [run for run in after if (run.run_id, run.state.token) in known]
    found = []
    for life, beats in heard.items():
        owed = [run for run in lasting if _life(run) == life and run.since < beats.first.at]
        if _lacks(beats.last, owed):
            found.append(f"{life[0]} holds {beats.last.held_count} and should hold these {len(owed)}: {named(owed)}")
    if not found:
        return ok(CHECK, f"none, by the beats of {len(heard)} workers that have something open")
    next_step = "Restart that worker: its attempts are then called lost, and tried again"
    return Finding(CHECK, State.FAIL, "; ".join(found), next_step)


def _lacks(beat: Heartbeat, owed: list[Seen]) -> bool:
    if beat.held_count != len(owed):
        return beat.held_count < len(owed)
    return beat.held_xor != reduce(xor, (run.state.token for run in owed), 0)


def _open_attempts(log: Log, names: Names, generation: int) -> list[Seen]:
    positions = log.group_positions(names.group(ROUTER))
    return [run for run in open_runs(log, names, positions, generation) if run.state.attempt_open]


def _life(run: Seen) -> Life:
    return run.state.worker, run.state.incarnation


def _listen(log: Log, names: Names, clock: Clock, lives: set[Life]) -> dict[Life, Beats]:
    """Two beats of each of these, from now on; fewer where they don't come in time."""
    places = [TopicPartition(names.heartbeats, number) for number in range(log.partitions(names.heartbeats))]
    first: dict[Life, Heartbeat] = {}
    heard: dict[Life, Beats] = {}
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign({place: log.high_watermark(place) for place in places})
        until_s = clock.monotonic_s() + WATCH_S
        while len(heard) < len(lives) and clock.monotonic_s() < until_s:
            for record in reader.poll(_BATCH, _POLL_S):
                beat = _beat(record.value)
                if beat is None or (life := (beat.worker, beat.incarnation)) not in lives:
                    continue
                if life in first:
                    heard[life] = Beats(first[life], beat)
                else:
                    first[life] = beat
    finally:
        reader.close()
    return heard


def _beat(value: bytes | None) -> Heartbeat | None:
    try:
        return decode_heartbeat(value or b"")
    except UndecodableRecord:
        return None
