"""Somebody who reads run-events from outside while a play goes on: which runs there are, and which have not ended.

It decides nothing and judges nothing: people look here for a run to cancel, and the end of a play for what is missing.
It folds by the oracle's reducer, so a bug in the product's cannot hide a run from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.model.ids import job_of_run
from waterclock.wire.names import Names

FRESH = 2
"""``pick`` modulo 4 of a cancel that is for a run which was not claimed yet."""

_BATCH = 1_000


class Onlooker:
    """Reads committed records of run-events and of the dead letters."""

    def __init__(self, log: MemoryLog, names: Names) -> None:
        self._events = log.reader(Isolation.COMMITTED)
        self._letters = log.reader(Isolation.COMMITTED)
        for reader, topic in ((self._events, names.run_events), (self._letters, names.dlq)):
            reader.assign({TopicPartition(topic, number): 0 for number in range(log.partitions(topic))})
        self.chronicle = Chronicle()
        self.letters: list[Record] = []
        self.events_count = 0
        """How many run events were seen."""
        self._revisions: dict[str, list[int]] = {}
        self._revision_of: dict[str, int] = {}
        self._backfills: dict[str, str] = {}

    def look(self) -> Chronicle:
        """Read on to the end as of now."""
        while records := self._events.poll(_BATCH, 0.0):
            self.events_count += len(records)
            self._note_revisions(records)
            self.chronicle.read(
                {"partition": each.partition, "offset": each.offset, "timestamp_us": each.timestamp_us,
                 "value": each.value}
                for each in records
            )  # fmt: skip
        while letters := self._letters.poll(_BATCH, 0.0):
            self.letters += letters
        return self.chronicle

    def run_at(self, pick: int) -> str:
        """A run that somebody might cancel: mostly one that has not ended, and mostly a young one; "" without any."""
        chronicle = self.look()
        made = list(chronicle.made)
        going = [run_id for run_id in made if run_id in chronicle.open]
        undecided = [run_id for run_id in going if chronicle.runs[run_id]["outcome"] != "NONE"]
        among = [made, going, self.waiting() or going, undecided or going][pick % 4][-5:]
        return among[pick // 4 % len(among)] if among else ""

    def revision_at(self, job_id: str, pick: int) -> int:
        """A version that somebody might bring back: mostly one of the job's own."""
        self.look()
        known = [0, *self._revisions.get(job_id, ())]
        return known[pick % len(known)]

    def knows(self, job_id: str) -> bool:
        """Whether there has been such a job."""
        self.look()
        return job_id in self._revisions

    def _note_revisions(self, records: Sequence[Record]) -> None:
        for record in records:
            event = decode(record.value)[1]
            if event["kind"] == "PENDING" and event["pending"]["dag"] is not None:
                self._revision_of[event["run_id"]] = event["pending"]["revision"]
            if event["kind"] == "REVISED":
                self._revisions.setdefault(event["job_id"], []).append(event["revised"]["revision"])
            elif event["kind"] == "BACKFILL":
                told = event["backfilled"]
                self._backfills[f"{event['job_id']}~{told['number']}"] = told["status"]

    def backfills_go_on(self, paused: set[str]) -> bool:
        """Whether one of them still makes runs, or will by itself. ``paused``: jobs.

        Such a job keeps what its schedule made and holds until it is resumed; a backfill waits with such a fire.
        """
        stuck = {run_id.partition("@")[0] for run_id in self.held()} & paused
        rests = {"RUNNING": stuck, "WAITING": paused}
        return any(
            status in rests and name.rpartition("~")[0] not in rests[status] for name, status in self._backfills.items()
        )

    def has_waiting_backfills(self) -> bool:
        """Whether one waits for another, or for the end of a pause."""
        return "WAITING" in self._backfills.values()

    def backfill_at(self, pick: int) -> str:
        """A backfill that somebody might pause, resume or cancel; "" without any."""
        self.look()
        known = list(self._backfills)
        return known[pick % len(known)] if known else ""

    def paused(self) -> list[str]:
        """DagRuns that are open and paused."""
        runs = self.look().runs
        return [
            run_id
            for run_id in sorted(self.chronicle.open)
            if runs[run_id]["nodes"] is not None and runs[run_id]["paused"]
        ]

    def open_dag_run_at(self, pick: int, *, is_paused: bool = False, job_id: str = "") -> str:
        """A DagRun that somebody might pause, let go on, or cancel, of any job or of this one; "" without any."""
        runs, paused = self.look().runs, self.paused()
        going = [run_id for run_id in sorted(self.chronicle.open) if runs[run_id]["nodes"] is not None]
        among = [each for each in (paused if is_paused else going) if job_id in ("", job_of_run(each))]
        return among[pick % len(among)] if among else ""

    def dag_run_at(self, pick: int) -> tuple[str, int, list[str], list[str]] | None:
        """A DagRun that has ended: its revision, its nodes by name that are known, and those that failed."""
        runs = self.look().runs
        ended = [run_id for run_id, run in runs.items() if run["nodes"] and run_id not in self.chronicle.open]
        if not ended:
            return None
        run_id = ended[pick % len(ended)]
        names = {node: node.partition("/")[2].partition(".")[0] for node in runs[run_id]["nodes"]}
        failed = {names[node] for node in names if runs[node]["status"] == "FAILED"}
        return run_id, self._revision_of[run_id], sorted(set(names.values())), sorted(failed)

    def waiting(self) -> list[str]:
        """Runs that nobody has claimed."""
        chronicle = self.look()
        return [run_id for run_id, run in chronicle.runs.items() if run["status"] == "PENDING"]

    def held(self) -> list[str]:
        """Runs that wait for others of their job."""
        chronicle = self.look()
        return [run_id for run_id in chronicle.held if run_id in chronicle.open and chronicle.runs[run_id]["held"]]

    def open_attempt(self, pick: int) -> tuple[str, dict[str, Any]] | None:
        """A run whose attempt is open, and what is known of it."""
        runs = self.look().runs
        running = [run_id for run_id, run in runs.items() if run["status"] == "RUNNING" and run["outcome"] == "NONE"]
        return (found := running[pick % len(running)], runs[found]) if running else None

    def letter_at(self, pick: int) -> Record | None:
        """A dead letter that somebody might redrive."""
        self.look()
        return self.letters[pick % len(self.letters)] if self.letters else None
