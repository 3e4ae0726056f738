"""What the log says of each job: its commands, what these had to make, what was decided. Imports nothing of ours.

Input: dumped records ``{"partition", "offset", "timestamp_us", "key", "value"}`` of ``commands`` and ``run-events``,
read committed. The judges of the books, of misfires and of what runs are made of all begin here.
"""

import collections
import itertools
import typing

from . import owed, policies
from .records import decode
from .runs import is_of_backfill

MASK = owed.MASK


class Fact(typing.NamedTuple):
    """A run event in its place. ``behind``: the newest due time that events before it in its partition had passed, but
    for those of its own transaction: a herd stands first in its round, which is decided afterwards, and as a whole.
    Where the dump tells of no transactions each event is one, and what was sent early counts not. ``applied``: the
    highest offset of a command that they prove to be applied (-1: none)."""

    partition: int
    offset: int
    stamp: int
    event: dict
    behind: int
    applied: int


class Job:
    """One job. ``made``: fire -> its PENDINGs, ``series``: run id -> those of triggers and redrives; in log order.

    A run that was HELD is made by that, and its release is no other; but where it was SKIPPED in the end it was not
    made. ``held``: run id -> its HELD; ``released``: run ids; ``dropped``: fire -> what decided a fire that an overlap
    policy has dropped, at once or after it was held. ``backfilled``: the PENDINGs of backfills, ``told``: their words.
    ``chained``: fire -> PENDINGs of versions with a fixed delay, which are in none of the others, nor are its skips.
    """

    def __init__(self, job_id):
        self.job_id = job_id
        self.commands = []
        self.judged = owed.Judged([], [], {}, [], [], {}, {})
        self.revised = collections.defaultdict(list)
        self.made = collections.defaultdict(list)
        self.series = collections.defaultdict(list)
        self.skipped = []
        self.chained = collections.defaultdict(list)
        self.backfilled = []
        self.told = []
        self.held = {}
        self.released = set()
        self.dropped = {}
        self.answered = collections.defaultdict(list)
        self.grace = owed.MINUTE_US
        self._duties = {}

    def duties(self, until):
        """{fire: Duty} of its schedule, up to ``until``."""
        if until not in self._duties:
            self._duties[until] = owed.owed(self.judged.made, until, self.grace)
        return self._duties[until]

    def triggered(self, trigger):
        """The run ids that a trigger made."""
        prefix = owed.run_id(self.job_id, trigger.stamp) + "~"
        return [run_id for run_id in self.redriven(trigger.offset) if run_id.startswith(prefix)]

    def is_paused(self, stands, at):
        """Whether nobody else may start it ``at`` an instant at which the version ``stands``: also where the resume at
        the end of its pause is applied already, and that is still to come."""
        if stands.status == "PAUSED":
            return True
        made = [version for version in reversed(self.judged.made) if version.offset <= stands.offset]
        for newer, older in itertools.pairwise(made):
            if older.stamp <= at:
                return older.status == "PAUSED" and at <= newer.stamp == older.resume_at - 1
        return False

    def redriven(self, offset):
        """The run ids of the series that the command at this offset began."""
        return [run_id for run_id in self.series if int(run_id.partition("~")[2]) & MASK == offset]


def read(commands, events, rules=owed.Rules()):  # noqa: B008  # a value
    """{job id: Job}, in the order of their names. The last reading is kept: judges ask one after the other."""
    mark = (rules, len(commands), len(events))
    if not _LAST or _LAST[0] is not commands or _LAST[1] is not events or _LAST[2] != mark:
        _LAST[:] = [commands, events, mark, _read(commands, events, rules)]
    return _LAST[3]


_LAST = []


def _read(commands, events, rules):
    found = {}
    for fact in _facts(events):
        _note(found.setdefault(fact.event["job_id"], Job(fact.event["job_id"])), fact)
    for job_id, given in owed.by_job(commands).items():
        found.setdefault(job_id, Job(job_id)).commands = given
    for job in found.values():
        edges = {offset: _edge(facts[0].event["revised"]) for offset, facts in job.revised.items()}
        job.judged = owed.versions(job.commands, edges, rules)
        job.grace = rules.grace
        _set_chains_apart(job)
    return dict(sorted(found.items()))


def _set_chains_apart(job):
    """What versions with a fixed delay have made or skipped: no schedule says it (``delays.py``)."""
    chains = {version.offset for version in job.judged.made if version.spec["delay_us"] is not None}
    if not chains:
        return
    for fire, facts in [*job.made.items()]:
        if facts and facts[0].event["pending"]["revision"] & MASK in chains:
            job.chained[fire] += job.made.pop(fire)
    job.skipped = [fact for fact in job.skipped if fact.event["skipped"]["revision"] & MASK not in chains]


def _edge(revised):
    return owed.Edge(revised["edge_at"], tuple((gap["from_at"], gap["to_at"]) for gap in revised["gaps"]))


def _note(job, fact):
    event = fact.event
    kind = event["kind"]
    if kind == "BACKFILL":
        job.told.append(fact)
    elif is_of_backfill(event):
        job.backfilled.append(fact)
    elif kind == "REVISED":
        job.revised[event["revised"]["revision"] & MASK].append(fact)
    elif kind == "PENDING" and event["run_id"] in job.held and event["run_id"] not in job.released:
        job.released.add(event["run_id"])
    elif kind in ("PENDING", "HELD"):
        _note_made(job, fact)
    elif kind == "SKIPPED":
        _note_skipped(job, fact)
    elif kind == "ANSWERED":
        job.answered[event["answered"]["offset"]].append(fact)


def _note_made(job, fact):
    run_id = fact.event["run_id"]
    if fact.event["kind"] == "HELD":
        job.held[run_id] = fact
    if "~" in run_id:
        job.series[run_id].append(fact)
    else:
        job.made[owed.instant_of(run_id)].append(fact)


def _note_skipped(job, fact):
    run_id, held = fact.event["run_id"], job.held.get(fact.event["run_id"])
    if "~" in run_id:
        job.series[run_id] += [] if held else [fact]
        return
    job.skipped.append(fact)
    if held or fact.event["reason"] in policies.DROPPED:
        fire = owed.instant_of(run_id)
        job.dropped.setdefault(fire, held or fact)
        if held and run_id not in job.released and job.made[fire] == [held]:
            del job.made[fire]


class _Newest:
    """The newest value, and the newest one of any other transaction."""

    def __init__(self):
        self._first, self._second = (0, None), 0

    def of_others(self, transaction):
        return self._second if self._first[1] == transaction else self._first[0]

    def note(self, transaction, value):
        newest, owner = self._first
        if transaction == owner:
            self._first = max(newest, value), owner
        elif value > newest:
            self._first, self._second = (value, transaction), newest
        else:
            self._second = max(self._second, value)


def _facts(events):
    behind, applied = collections.defaultdict(_Newest), collections.defaultdict(lambda: -1)
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        place = record["partition"]
        if "/" in event["run_id"]:
            continue  # a node is no fire
        if event["kind"] in ("REVISED", "PENDING", "HELD", "SKIPPED", "ANSWERED", "BACKFILL"):
            round_of = record.get("transaction", object())
            passed = behind[place].of_others(round_of)
            yield Fact(place, record["offset"], record["timestamp_us"], event, passed, applied[place])
            behind[place].note(round_of, _passed(record, event))
            applied[place] = max(applied[place], _proves(event))


def _passed(record, event):
    """The due time that the timeline has reached with this event; 0 where it was decided apart from it, or later, as a
    part of a herd that stands in the log before it is due."""
    detail = event["pending"] or event["skipped"] or {}
    due_at = detail.get("due_at") or 0
    is_sent_early = "transaction" not in record and record["timestamp_us"] // 1_000 < due_at // 1_000
    return 0 if is_sent_early else due_at


def _proves(event):
    """The command that this event proves to be applied, by its offset; -1: none."""
    if event["kind"] == "REVISED":
        return event["revised"]["revision"] & MASK
    if event["kind"] == "ANSWERED":
        # A refusal may speak of a command that lies in a partition where it does not belong.
        return -1 if event["answered"]["verdict"] == "refused" else event["answered"]["offset"]
    if event["kind"] == "BACKFILL":
        return event["backfilled"]["number"] & MASK
    series = event["run_id"].partition("~")[2]
    return int(series) & MASK if series else -1
