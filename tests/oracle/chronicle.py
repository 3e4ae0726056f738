"""What happened to every run, in one pass over run-events: claims, ends, waits, verdicts. Imports nothing of ours.

Input: dumped records ``{"partition", "offset", "timestamp_us", "key", "value"}`` of a read_committed reader, in log
order within each partition, as many at a time as there are. What counts is what the second reducer (``runs.py``)
accepts; what it ignores is kept apart, by kind, because it is evidence too (a late success after a cancel).
"""

import collections
import typing

from .records import decode
from .reducer import FINAL, OF_NO_RUN, OUTCOMES, changes, gives_way, is_open


class Claim(typing.NamedTuple):
    """An accepted STARTED. ``token``: its offset; ``at``: the worker's clock; ``stamp``: the record's time."""

    token: int
    worker: str
    incarnation: int
    at: int
    stamp: int


class End(typing.NamedTuple):
    """An accepted outcome of an attempt."""

    kind: str
    offset: int
    stamp: int
    error_class: str
    emitted: int
    retry_after_us: int = 0


class Age(typing.NamedTuple):
    """From when the limits of a run count, and what they are; 0: there is none.

    ``since``: its whole age, from when it was made or went out, of a trigger from what it was asked for.
    ``claimable_at``: from when a worker could claim the attempt that waits.
    """

    since: int
    claimable_at: int
    queue_us: int
    run_us: int

    def over_at(self):
        """When a run that waits is over its time; None: never."""
        queued = [self.claimable_at + self.queue_us] if self.queue_us else []
        return min(queued + ([self.since + self.run_us] if self.run_us else []), default=None)


class Wait(typing.NamedTuple):
    """A wait for a worker that had a bound, and what ended it, by its record. ``over_at``: the bound, or from when on
    readers saw the run, if that is later."""

    run_id: str
    over_at: int
    kind: str
    record: dict


class Cancel(typing.NamedTuple):
    """A CANCEL_REQUESTED, and how its run stood there. ``status``: None where nothing of the run stood before it."""

    offset: int
    accepted: bool
    status: str | None
    attempt_open: bool


class Chronicle:
    """Everything that was accepted, by run and by (run, attempt), and what was ignored."""

    def __init__(self, events=()):
        self.runs = {}
        self.due = {}
        self.pending = {}
        self.held = {}
        self.claims = {}
        self.ends = {}
        self.retries = {}
        self.verdicts = {}
        self.verdict_at = {}
        self.ages = {}
        self.over_at = {}
        self.waits = []
        self.judged = {}
        self.cancels = collections.defaultdict(list)
        self.ignored = collections.defaultdict(list)
        self.accepted_count = 0
        self.complaints = []
        self.open = set()
        self.read(events)

    def read(self, events):
        """Go on with these records."""
        for record in events:
            _, event = decode(record["value"])
            if event["kind"] not in OF_NO_RUN:
                self._take(record, event)

    def _take(self, record, event):
        kind, run_id = event["kind"], event["run_id"]
        before = self.runs.get(run_id)
        changed = changes(self.runs, event, record["offset"])
        after = changed.get(run_id)
        if kind == "CANCEL_REQUESTED":
            stood = (before["status"], is_open(before)) if before else (None, False)
            self.cancels[run_id].append(Cancel(record["offset"], bool(after), *stood))
        if not after:
            self.ignored[kind].append((run_id, event["attempt"], before["status"] if before else None))
            return
        self.accepted_count += 1
        if (
            before
            and before["status"] in FINAL
            and after["status"] != before["status"]
            and not gives_way(before, event)
        ):
            self.complaints.append(f"{run_id}: {before['status']} became {after['status']}")
        if kind == "ATTEMPT_CANCELLED" and _says_it_was_asked(event) and not (before["cancel"] or before["expired"]):
            self.complaints.append(f"{run_id}: its attempt was cancelled before anybody had asked for that")
        for each, run in changed.items():
            self.runs[each] = run | {"job_id": event["job_id"]}
            (self.open.discard if run["status"] in FINAL else self.open.add)(each)
        self._note(record, event, (run_id, event["attempt"]))
        over_at = self.over_at.pop(run_id, None) if "PENDING" != kind != "CANCEL_REQUESTED" else None
        if over_at is not None:
            self.waits.append(Wait(run_id, over_at, kind, record))
        if kind in ("PENDING", "RETRYING"):
            age = self.ages[run_id] = self._age(event, was_held=bool(before) and before["held"])
            if after["nodes"] is None and (over_at := age.over_at()) is not None:
                self.over_at[run_id] = max(over_at, record.get("readable_us", record["timestamp_us"]))

    def _age(self, event, *, was_held):
        """By the stamps of whoever wrote the event: no other clock is asked."""
        if event["kind"] == "RETRYING":
            due_at = event["retrying"]["due_at"] if event["retrying"] else event["at"]
            return self.ages[event["run_id"]]._replace(claimable_at=max(due_at, event["at"]))
        made = event["pending"]
        is_asked_for = made["origin"] == "TRIGGER" and not was_held
        since = made["fire_at"] if is_asked_for else event["at"]
        return Age(since, event["at"], made["queue_timeout_us"], made["run_timeout_us"])

    def _note(self, record, event, key):
        kind, run_id, stamp = event["kind"], event["run_id"], record["timestamp_us"]
        if kind == "PENDING":
            self.pending[run_id] = stamp
            self.due[run_id] = event["pending"]["due_at"]
        elif kind == "HELD":
            self.held[run_id] = record["offset"]
        elif kind == "STARTED":
            self.claims[key] = Claim(record["offset"], event["worker"], event["incarnation"], event["at"], stamp)
        elif kind in OUTCOMES:
            ended = event["ended"] or {"error_class": "", "emitted": 0, "retry_after_us": 0}
            what = (ended["error_class"], ended["emitted"], ended["retry_after_us"])
            self.ends[key] = End(kind, record["offset"], stamp, *what)
        elif kind == "RETRYING":
            self.retries[key] = (event["retrying"] or {"due_at": 0, "delay_us": 0}) | {"stamp": stamp}
            self.judged[run_id, event["attempt"] - 1] = stamp
        elif kind in ("RUN_FAILED", "RUN_EXPIRED"):
            self.verdicts[run_id] = (kind, event["reason"])
            self.verdict_at[run_id] = event["at"]
            if kind == "RUN_FAILED":
                self.judged[key] = stamp

    @property
    def made(self):
        """The runs that were made: all but the recorded skips."""
        return {run_id: run for run_id, run in self.runs.items() if run["status"] != "SKIPPED"}

    def statuses(self):
        """How many runs stand how."""
        return collections.Counter(run["status"] for run in self.runs.values())

    def outcomes(self):
        """How many attempts ended how; handed back ones apart."""
        return collections.Counter(
            "DRAINED" if end.error_class == "drained" else end.kind.removeprefix("ATTEMPT_")
            for end in self.ends.values()
        )


def _says_it_was_asked(event):
    """Not one that ended because its claim was not accepted."""
    return bool(event["ended"]) and event["ended"]["error_class"] == "cancelled"
