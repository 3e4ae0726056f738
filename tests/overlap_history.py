"""One random life of jobs with overlap policies and limits, on a dispatcher in memory and on the plain model at once.

The history plays the workers and the retry router itself: it appends their events to run-events as it likes. What must
hold: one thing happens at a time, and the dispatcher comes to rest before the next; so whatever order it reads in, the
model is told the same story. How it fails: ``play`` answers every job whose decisions differ, with both.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any
from unittest import mock

from waterclock.dispatcher import window

from tests.oracle import overlap
from tests.unit.dispatcher_world import NAMES, START, World
from waterclock.log.memory_faults import CommitFate
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.errors import BackendDown
from waterclock.model.events import Ended, EventKind, RunEvent, Skipped, Started
from waterclock.model.ids import US_PER_S, Instant, job_of_run, make_run_id, ordinal, partition_of
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.timing import Misfire, Timing
from waterclock.wire import codec
from waterclock.wire.messages import event_message

EVERY_US = 60 * US_PER_S
GENERATION = 1
_KEYS = ("/customer/id", "/customer/id", "/region")
_STEPS = (18, 45)
_QUIET, _STEPS_MAX = 6, 500
_PAST_US = 1_000
"""Brokers stamp in milliseconds."""
_TIMING = Timing(misfire=Misfire.ALL, catch_up_max=1_000)
_COMPARED = {EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED}
_FREE: dict[str, Any] = {"overlap": "allow", "max_concurrent": 0, "key": "", "max_per_key": 0, "max_held": 0}


class _Run:
    """What the history knows of a run that was handed out."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.attempt = 0
        self.token = 0
        self.is_open = False
        """An attempt of it is."""
        self.is_asked = False


class History:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._rng = random.Random(f"overlap {seed}")
        self._world = World(partitions=self._rng.choice([1, 2]))
        self._jobs: dict[str, overlap.Job] = {}
        self._limits: dict[str, dict[str, Any]] = {}
        self._meant: dict[str, list[tuple[str, str, str]]] = {}
        self._alive: dict[str, bool] = {}
        self._runs: dict[str, _Run] = {}
        self._works: dict[str, bytes] = {}
        self._fired_to = START
        self._stops: list[tuple[str, str]] = []
        """Runs that the model has asked to end; the log says so only when the dispatcher has spoken."""

    def play(self) -> list[str]:
        """Live; answers what differs from the model."""
        with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
            return self._live()

    def _live(self) -> list[str]:
        for number in range(self._rng.randint(1, 3)):
            self._create(f"t:job{number}")
        self._rest()
        acts = [
            (self._fire, 8),
            (self._trigger, 6),
            (self._progress, 10),
            (self._cancel, 2),
            (self._pause_or_resume, 2),
            (self._edit, 2),
            (self._delete, 0.5),
            (self._redrive, 1),
            (self._take_over, 3),
            (self._outage, 1),
        ]
        for _ in range(self._rng.randint(*_STEPS)):
            self._rng.choices([act for act, _ in acts], [weight for _, weight in acts])[0]()
        return self._differences()

    # What happens -------------------------------------------------------------------------------------------------

    def _create(self, job_id: str) -> None:
        limits = self._draw_limits()
        self._world.command(CommandKind.CREATE, job_id, self._spec(limits))
        self._jobs[job_id], self._limits[job_id] = overlap.Job(limits), limits
        self._meant.setdefault(job_id, [])
        self._alive[job_id] = True

    def _fire(self) -> None:
        """Every job's next fire."""
        self._advance_to(self._fired_to + EVERY_US)
        self._rest()

    def _outage(self) -> None:
        """Nobody owns the shards for several fires: the one that is due just now goes first, then those in the gap."""
        self.counts["catch-ups"] += 1
        self._kill()
        self._advance_to(self._fired_to + self._rng.randint(2, 8) * EVERY_US, newest_first=True)
        self._rest()

    def _advance_to(self, at: Instant, *, newest_first: bool = False) -> None:
        fires = list(range(self._fired_to + EVERY_US, at + 1, EVERY_US))
        self._world.clock.advance(at - self._world.clock.now() + _PAST_US)
        self._fired_to = at
        if newest_first:
            self._arrive([fires.pop()])
            self._let_stops_end()
        self._arrive(fires)

    def _arrive(self, fires: list[Instant]) -> None:
        for job_id, job in self._jobs.items():
            if not self._alive[job_id] or job.paused:
                continue
            limits = self._limits[job_id]
            for fire_at in fires:
                run_id = make_run_id(job_id, fire_at)
                self._decided(job_id, job.arrives(run_id, fire_at, _decoded("own"), "schedule", limits))

    def _trigger(self) -> None:
        """One or several at once, each with a payload of its own or the job's."""
        for _ in range(self._rng.choice([1, 1, 2, 4])):
            job_id = self._rng.choice(list(self._jobs))
            if not self._alive[job_id]:
                continue
            value = self._rng.choice(["own", "a", "b"])
            payload = None if value == "own" else _payload(value)
            offset = self._world.command(CommandKind.TRIGGER, job_id, payload=payload)
            at, limits = self._world.clock.now(), self._limits[job_id]
            run_id = make_run_id(job_id, at, ordinal(GENERATION, offset))
            self._decided(job_id, self._jobs[job_id].arrives(run_id, at, _decoded(value), "people", limits))
        self._rest()

    def _redrive(self) -> None:
        """The work of some run once more."""
        self._read_works()
        ids = [run_id for run_id in self._works if self._alive[job_of_run(run_id)]]
        if not ids:
            return
        run_id = self._rng.choice(ids)
        job_id, framed = job_of_run(run_id), self._works[run_id]
        offset = self._world.command(CommandKind.REDRIVE, job_id, run_id=run_id, work=framed)
        work, limits = codec.decode_work(framed), self._limits[job_id]
        made = make_run_id(job_id, work.fire_at, ordinal(GENERATION, offset))
        payload = json.loads(work.payload)
        self._decided(job_id, self._jobs[job_id].arrives(made, work.fire_at, payload, "people", limits))
        self.counts["redrives"] += 1
        self._rest()

    def _progress(self) -> None:
        """A worker, or the router, has something to say of a run: most often that it is over."""
        if not self._runs:
            return
        run = self._rng.choice(list(self._runs.values()))
        if not run.is_open:
            run.attempt += 1
            run.token = self._say(run, EventKind.STARTED, detail=Started("x", 0, 0))
            run.is_open = True
            if run.attempt > 1:
                self.counts["retries"] += 1
        elif run.is_asked:
            kind = self._rng.choice([EventKind.ATTEMPT_CANCELLED, EventKind.ATTEMPT_LOST, EventKind.ATTEMPT_SUCCEEDED])
            self._say(run, kind, detail=Ended(0))
            self._over(run)
        elif self._rng.random() < 0.5:
            self._say(run, EventKind.ATTEMPT_SUCCEEDED, detail=Ended(0))
            self._over(run)
        else:
            self._say(run, EventKind.ATTEMPT_FAILED, detail=Ended(0, "Odd"))
            if self._rng.random() < 0.5:
                self._say(run, EventKind.RETRYING, attempt=run.attempt + 1)
                run.is_open = False
            else:
                self._say(run, EventKind.RUN_FAILED)
                self._over(run)
        if self._rng.random() < 0.1:
            self._say(run, EventKind.ATTEMPT_SUCCEEDED, token=run.token + 7)  # somebody's who does not own it
        self._rest()

    def _over(self, run: _Run) -> None:
        """It is final: the model hears of it."""
        self._runs.pop(run.run_id)
        job_id = job_of_run(run.run_id)
        self._decided(job_id, self._jobs[job_id].ended(run.run_id))

    def _cancel(self) -> None:
        """A run that waits, or one that is open."""
        waiting = [each["run"] for job in self._jobs.values() for each in job.waiting]
        ids = waiting if waiting and self._rng.random() < 0.6 else [*waiting, *self._runs]
        if not ids:
            return
        run_id = self._rng.choice(ids)
        job_id = job_of_run(run_id)
        self._world.command(CommandKind.CANCEL, job_id, run_id=run_id)
        if run_id in self._runs:
            self._asked(job_id, [run_id])
        else:
            self.counts["cancelled while held"] += 1
            self._decided(job_id, self._jobs[job_id].cancelled(run_id))
        self._rest()

    def _asked(self, job_id: str, run_ids: list[str]) -> None:
        """The end of these was asked for: final at once while no attempt is open."""
        at_once = [run_id for run_id in run_ids if not self._runs[run_id].is_open]
        for run_id in run_ids:
            if run_id in at_once:
                del self._runs[run_id]
            else:
                self._runs[run_id].is_asked = True
                self._jobs[job_id].is_asked(run_id)
        if at_once:
            self._decided(job_id, self._jobs[job_id].ended(*at_once))

    def _pause_or_resume(self) -> None:
        job_id = self._rng.choice(list(self._jobs))
        if not self._alive[job_id]:
            return
        job = self._jobs[job_id]
        self._world.command(CommandKind.RESUME if job.paused else CommandKind.PAUSE, job_id)
        self._decided(job_id, job.resumes() if job.paused else job.pauses())
        self._rest()

    def _edit(self) -> None:
        job_id = self._rng.choice(list(self._jobs))
        if not self._alive[job_id]:
            return
        limits = self._draw_limits() if self._rng.random() < 0.8 else dict(_FREE)
        if self._jobs[job_id].waiting and limits["key"] != self._limits[job_id]["key"]:
            self.counts["key changed while runs wait"] += 1
        self._world.command(CommandKind.UPDATE, job_id, self._spec(limits))
        self._limits[job_id] = limits
        self._decided(job_id, self._jobs[job_id].changes(limits))
        self._rest()

    def _delete(self) -> None:
        """And define it anew, as often as not."""
        job_id = self._rng.choice(list(self._jobs))
        job = self._jobs[job_id]
        if self._alive[job_id]:
            self._world.command(CommandKind.DELETE, job_id)
            self._alive[job_id] = False
            self._limits[job_id] = dict(_FREE)
            self._decided(job_id, job.is_deleted(dict(_FREE)))
        else:
            limits = self._draw_limits()
            self._world.command(CommandKind.CREATE, job_id, self._spec(limits))
            self._alive[job_id], self._limits[job_id] = True, limits
            self._decided(job_id, job.changes(limits))
        self._rest()

    def _take_over(self) -> None:
        """Another process owns the shards from here on; or a round of this one stays in doubt."""
        is_held = any(job.waiting for job in self._jobs.values())
        if self._rng.random() < 0.3:
            self.counts["commits in doubt"] += 1
            fate = self._rng.choice([CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS])
            self._world.cluster.faults.next_commit(NAMES.transactional_id("dispatcher", "d1"), fate)
            return
        self.counts["take-overs"] += 1
        self.counts["take-overs with runs held"] += is_held
        self._kill()
        self._rest()

    def _kill(self) -> None:
        if self._rng.random() < 0.5:
            self._world.steps(self._rng.randint(0, 2))
        self._world.crash()

    # Parts --------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Until nothing more comes of what happened: a stop may end a run at once, and that makes room."""
        self._let_stops_end()
        quiet = 0
        for _ in range(_STEPS_MAX):
            try:
                quiet = 0 if self._world.dispatcher.step() else quiet + 1
            except BackendDown:
                quiet = 0
            if quiet >= _QUIET:
                return
        raise RuntimeError("the dispatcher does not come to rest")

    def _let_stops_end(self) -> None:
        asked, self._stops = self._stops, []
        for job_id in self._jobs:
            self._asked(job_id, [run_id for job, run_id in asked if job == job_id and run_id in self._runs])

    def _decided(self, job_id: str, decisions: list[tuple[str, str, str]]) -> None:
        """Note what the model decides, and play the part of the workers in it."""
        for kind, run_id, reason in decisions:
            if kind == "STOP":
                self.counts[f"STOP {reason}"] += 1
                continue
            self._meant[job_id].append((kind, run_id, reason))
            self.counts[f"{kind} {reason}".strip()] += 1
            if kind == "PENDING":
                self._runs[run_id] = _Run(run_id)
        self._stops += [(job_id, run_id) for kind, run_id, _ in decisions if kind == "STOP"]

    def _say(self, run: _Run, kind: EventKind, *, attempt: int = 0, token: int = 0, detail: Any = None) -> int:
        owner = {} if kind in (EventKind.RETRYING, EventKind.RUN_FAILED) else {"worker": "w", "incarnation": 1}
        if owner and kind is not EventKind.STARTED:
            owner["token"] = token or run.token
        event = RunEvent(kind, job_of_run(run.run_id), run.run_id, self._world.clock.now(),
                         attempt=attempt or run.attempt, detail=detail, **owner)  # fmt: skip
        appender = self._world.outside.appender()
        ticket = appender.append(event_message(NAMES, event))
        appender.flush(1.0)
        appender.close()
        assert ticket.offset is not None
        return ordinal(GENERATION, ticket.offset)

    def _read_works(self) -> None:
        for tier in Tier:
            for record in self._world.records(NAMES.runs(tier)):
                work = codec.decode_work(record.value)  # type: ignore[attr-defined]
                self._works.setdefault(work.run_id, codec.encode_work(work))

    def _draw_limits(self) -> dict[str, Any]:
        word = self._rng.choice([each.value for each in Overlap])
        limits = {**_FREE, "overlap": word}
        if self._rng.random() < 0.4:
            limits["key"] = self._rng.choice(_KEYS)
        narrow = word == "sequential"
        if limits["key"] and self._rng.random() < 0.5:
            limits["max_per_key"] = 1 if narrow else self._rng.randint(1, 2)
        if self._rng.random() < 0.5 or (word == "allow" and not limits["key"]):
            limits["max_concurrent"] = 1 if narrow else self._rng.randint(1, 3)
        if word in ("allow", "buffer_all") and self._rng.random() < 0.6:
            limits["max_held"] = self._rng.randint(1, 4)
        self.counts[f"policy {word}"] += 1
        self.counts["with a key"] += bool(limits["key"])
        return limits

    def _spec(self, limits: dict[str, Any]) -> JobSpec:
        concurrency = Concurrency(
            Overlap(limits["overlap"]),
            limits["max_concurrent"],
            limits["key"],
            limits["max_per_key"],
            limits["max_held"],
        )
        every = Every(EVERY_US, START)
        return JobSpec("demo.noop", every, payload=_payload("own"), timing=_TIMING, concurrency=concurrency)

    def _differences(self) -> list[str]:
        said: dict[str, list[tuple[str, str, str]]] = {job_id: [] for job_id in self._jobs}
        held: set[str] = set()
        for event in self._world.events():
            if event.kind not in _COMPARED or event.reason == "paused":
                continue
            cap = event.detail.cap if isinstance(event.detail, Skipped) else ""
            said[event.job_id].append((event.kind.value, event.run_id, f"{event.reason} {cap}".strip()))
            if event.kind is EventKind.HELD:
                held.add(event.run_id)
            self.counts["released"] += event.kind is EventKind.PENDING and event.run_id in held
            self.counts["decisions"] += 1
        return [
            f"{job_id} of {partition_of(job_id, self._world.partitions)}: {_first_difference(meant, said[job_id])}"
            for job_id, meant in self._meant.items()
            if meant != said[job_id]
        ]


def _payload(value: str) -> bytes:
    return json.dumps(_decoded(value)).encode()


def _decoded(value: str) -> dict[str, Any]:
    return {"customer": {"id": value}, "region": "far" if value == "b" else "near"}


def _first_difference(meant: list[tuple[str, str, str]], said: list[tuple[str, str, str]]) -> str:
    for place, (one, other) in enumerate(zip(meant, said, strict=False)):
        if one != other:
            return f"decision {place}: meant was {one}, the log says {other}"
    return f"{len(meant)} decisions were meant, the log has {len(said)}"
