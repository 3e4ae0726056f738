"""The judge of the books: which fires were owed, by brute force over the dumps of commands and REVISED.

Imports nothing of ours. Commands are dicts ``{"offset", "appended_at", "record"}`` of one job in log order; the edges
come from REVISED events (``{revision offset: Edge}``). Instants are microseconds.
"""

import collections
import datetime as dt
import functools
import json
import typing

from . import brute_force, calendars, gathering, policies
from .records import decode

MINUTE_US = 60_000_000
DAY_US = 86_400_000_000
MASK = (1 << 48) - 1
HOPS_MAX = 16
ABOUT_BACKFILLS = ("BACKFILL", "PAUSE_BACKFILL", "RESUME_BACKFILL", "CANCEL_BACKFILL")
ABOUT_RUNS = ("CANCEL", "REDRIVE", "DISCARD", "DEFER", "RERUN", "PAUSE_RUN", "RESUME_RUN")


class Edge(typing.NamedTuple):
    """Up to where all was decided when a command was applied, but for what was due in gaps: [(from, to)]."""

    at: int = 0
    gaps: tuple = ()

    def has_left(self, due):
        """Whether what is due then was not decided yet."""
        return due > self.at or any(start <= due < end for start, end in self.gaps)


class Version(typing.NamedTuple):
    """What one command made of a job. ``edge``: an Edge."""

    offset: int
    stamp: int
    edge: Edge
    status: str
    spec: dict
    anchor: int
    first: bool
    job_id: str = ""
    note: str = ""
    resume_at: int = 0

    def due(self, fire):
        """When a fire of it is due: before the next one comes, also where calendars move fires to one another, or a
        clock change brings two closer together than the jitter of each."""
        at, said = policies.due(self.job_id, self.spec, fire), policies.timing(self.spec)
        if at > fire and (calendars.moves(said) or said["jitter_per_fire"]):
            return min([at, *(later - 1 for later in fires(self.spec, self.anchor, fire, at)[:1])])
        return at


def run_id(job_id, fire_at, series=0, node=""):
    """The documented text of a run id."""
    whole, fraction = divmod(fire_at, 1_000_000)
    text = _basic(whole)
    text += f".{fraction:06d}Z" if fraction else "Z"
    return f"{job_id}@{text}" + (f"~{series}" if series else "") + (f"/{node}" if node else "")


@functools.lru_cache(maxsize=1 << 16)
def _basic(second):
    """Basic ISO of a second, UTC: many a fire is named again and again."""
    return dt.datetime.fromtimestamp(second, dt.UTC).strftime("%Y%m%dT%H%M%S")


def instant_of(run):
    """The fire time inside a run id."""
    text = run.partition("/")[0].partition("@")[2].partition("~")[0].removesuffix("Z")
    whole, _, fraction = text.partition(".")
    at = dt.datetime.strptime(whole, "%Y%m%dT%H%M%S").replace(tzinfo=dt.UTC)
    return int(at.timestamp()) * 1_000_000 + int(fraction or 0)


def fires(spec, anchor, after, until):
    """All fires in (after, until], one by one, that lie within the ends of the job, where its calendars move them."""
    timing = policies.timing(spec)
    if until <= after:
        return []
    if not calendars.moves(timing):
        return _within(spec, anchor, after, until)
    nominal = _within(spec, anchor, after - MOVED_BACK, until)
    return sorted({at for fire in nominal if after < (at := calendars.target(spec, timing, fire)) <= until})


MOVED_BACK = 4 * DAY_US
"""How far back a fire is looked for that may be moved to now: no calendar of a play blocks more days in a row."""


def _within(spec, anchor, after, until):
    timing = policies.timing(spec)
    ends = timing["until_at"] or until + 1
    return [fire for fire in _of_schedule(spec, anchor, after, until) if timing["from_at"] <= fire < ends]


def _of_schedule(spec, anchor, after, until):
    if until <= after:
        return []
    if spec["delay_us"] is not None:
        return []  # what follows from the ends of its runs is judged by ``delays.py``
    if spec["dates"] is not None:
        return [at for at in spec["dates"] if after < at <= until]
    if spec["every"] is not None:
        every, start = spec["every"]["every_us"], spec["every"]["start_at"]
        at = anchor if start is not None else anchor + every
        found = []
        while at <= until:
            if at > after:
                found.append(at)
            at += every
        return found
    if spec["once"] is not None:
        return [spec["once"]["once_at"]] if after < spec["once"]["once_at"] <= until else []
    cron = spec["cron"]
    begin, end = after // MINUTE_US, until // MINUTE_US + 1
    window = brute_force.localise(cron["zone"], begin, end)
    minutes = brute_force.fires(cron["text"], window, begin, cron["gap"].lower(), cron["fold"].lower())
    return [minute * MINUTE_US for minute in minutes if after < minute * MINUTE_US <= until]


class Rules(typing.NamedTuple):
    """What the books are judged by: how long a repeat is one, and the pools that exist.

    ``grace``: how late a fire must be to be coalesced; ``skew``: how far ahead the clock of a dispatcher may be. Both
    in microseconds; whoever knows how true the clocks are gives less than the default. ``cursors_lost``: when
    somebody erased cursors; one made anew from the log knows nothing of a time in which nothing was due.
    """

    repeat_within: int = DAY_US
    pools: tuple = ("default",)
    grace: int = MINUTE_US
    skew: int = 30_000_000
    cursors_lost: tuple = ()


class Verdict(typing.NamedTuple):
    """What had to become of a command: applied, unchanged, repeated or refused. ``first``: the command it repeats."""

    word: str
    stands: int
    first: int = -1


class Trigger(typing.NamedTuple):
    """A TRIGGER that was obeyed: ``stands`` is the version that its run is made of, at ``stamp``."""

    stamp: int
    offset: int
    stands: Version
    payload: bytes | None


class Judged(typing.NamedTuple):
    """What the commands of one job had to make: versions in order, triggers in order, verdicts by offset.

    ``redrives``: the offsets of those that had to make another run of a dead letter's work. ``backfills``: what was
    asked for of the past; ``turns``: by offset, which of them a command was for, and what it asked. ``gathered``: by
    offset, the commands that windows hear of.
    """

    made: list
    triggers: list
    verdicts: dict
    redrives: list
    backfills: list
    turns: dict
    gathered: dict

    @property
    def refused(self):
        return [offset for offset, verdict in self.verdicts.items() if verdict.word == "refused"]


def by_job(commands):
    """{job: its commands in log order, as ``versions`` takes them}, from dumped records of ``commands``."""
    found = collections.defaultdict(list)
    for record in sorted(commands, key=lambda each: (each["partition"], each["offset"])):
        name, body = decode(record["value"])
        if name == "command":
            found[body["job_id"]].append(
                {"offset": record["offset"], "appended_at": record["timestamp_us"], "record": body}
            )
    return found


def versions(commands, edges, rules=Rules()):  # noqa: B008  # a value
    """What the commands of one job had to make."""
    judged, served = Judged([], [], {}, [], [], {}, {}), {}
    for command in commands:
        record, offset = command["record"], command["offset"]
        name = (True, record["idempotency_key"]) if record["idempotency_key"] else (False, record["command_id"])
        # Not the revision that it was asked of: a door that fills in the one that stands reads another one next time.
        body = (record["kind"], repr(record["spec"]), record["payload"], record["resume_at"], record["to_revision"])
        body += (record["calendars"],)
        body += tuple(record[part] for part in ("from_at", "to_at", "concurrency", "tier", "backfill_id"))
        about = record["kind"] in ABOUT_RUNS or record["kind"] in ABOUT_BACKFILLS
        body += (record["run_id"], record["due_at"], record["work"]) if about else ()
        first = served.get(name)
        if first and command["appended_at"] - first["appended_at"] <= rules.repeat_within:
            # A door that merges or looks things up may ask for something else the second time, by the same request.
            same = first["body"] == body or record["request_hash"] == first["record"]["request_hash"] != b""
            stands = -1 if record["kind"] in ABOUT_RUNS else _stands(judged)
            verdict = Verdict("repeated", first["stands"], first["offset"]) if same else Verdict("refused", stands)
        elif about:
            verdict = Verdict(_passed_on(judged, offset, record, command["appended_at"], rules), -1)
            if verdict.word == "refused" and record["kind"] in ABOUT_BACKFILLS:
                verdict = Verdict("refused", _stands(judged))
            if verdict.word != "refused" and name[1]:
                served[name] = {**command, "body": body, "stands": -1}
        else:
            word = _obeyed(judged, command, edges.get(offset, Edge()), rules)
            verdict = Verdict(word, _stands(judged))
            if word != "refused" and name[1]:
                served[name] = {**command, "body": body, "stands": verdict.stands}
        judged.verdicts[offset] = verdict
    return judged


def _passed_on(judged, offset, record, appended_at, rules):
    """A command about one run: what is well-formed is passed on, whatever stands; the log decides what it comes to."""
    kind = record["kind"]
    if kind in ABOUT_BACKFILLS:
        return _asked(judged, offset, record, appended_at, rules)
    named = record["run_id"].partition("@")[0] == record["job_id"]
    if (kind != "DEFER" and not named) or (kind in ("REDRIVE", "DEFER") and not record["work"]):
        return "refused"
    if kind in ("REDRIVE", "RERUN", "PAUSE_RUN", "RESUME_RUN") and "/" in record["run_id"]:
        return "refused"  # of a node alone
    if kind == "RERUN" and not _may_run_again(judged.made, record):
        return "refused"
    if kind in ("REDRIVE", "RERUN"):
        judged.redrives.append(offset)
    return "applied"


def _may_run_again(made, record):
    """Whether the version that is named is a Dag with these nodes."""
    version = next((each for each in made if each.offset == record["to_revision"] & MASK), None)
    if version is None or not version.spec["dag"]:
        return False
    return set(record["rerun_from"]) <= {node["name"] for node in json.loads(version.spec["dag"])["nodes"]}


AHEAD = 60_000_000
FIRES_MAX = 10_000


class Asked(typing.NamedTuple):
    """A BACKFILL that was obeyed: the fires of ``version`` in [``from_at``, ``to_at``). ``at``: its append time."""

    offset: int
    at: int
    version: Version
    from_at: int
    to_at: int
    concurrency: int
    tier: str

    def fires(self):
        """All of its range, in the order of time."""
        return fires(self.version.spec, self.version.anchor, self.from_at - 1, self.to_at - 1)

    def named(self):
        """Those that the schedule names in its range, wherever calendars move them."""
        return _within(self.version.spec, self.version.anchor, self.from_at - 1, self.to_at - 1)


def _asked(judged, offset, record, appended_at, rules):
    """A command about a backfill. Of one that turns it only the log says how it stood, so only that says the word."""
    if record["kind"] != "BACKFILL":
        judged.turns[offset] = (record["backfill_id"], record["kind"])
        return "turned"
    stands = judged.made[-1] if judged.made and judged.made[-1].status != "DELETED" else None
    version, named = stands, record["to_revision"]
    if named:
        found = [each for each in judged.made if each.offset == named & MASK and named > MASK]
        version = found[0] if found and found[0].status != "DELETED" else None
    from_at, until = record["from_at"], record["to_at"] or appended_at  # no end: up to the command
    to_at = min(until, appended_at)
    is_none = not 0 < from_at < until or until > appended_at + AHEAD or to_at <= from_at
    if stands is None or version is None or is_none or not 0 <= record["concurrency"] <= 1_000:
        return "refused"
    if version.spec["dag"]:
        return "refused"  # not built
    asked = Asked(offset, appended_at, version, from_at, to_at, record["concurrency"] or 10, record["tier"] or "LOW")
    is_much = max(len(asked.fires()), len(asked.named())) > FIRES_MAX
    if is_much or not asked.fires() or not set(_pools(version.spec)) <= set(rules.pools):
        return "refused"
    judged.backfills.append(asked)
    return "applied"


def _stands(judged):
    """The offset of the version that stands; -1: none."""
    return judged.made[-1].offset if judged.made else -1


RESUME_AHEAD = 60_000_000
PAUSE_MAX = 3_660 * DAY_US


def _stamp(command, before):
    """When a command counts. The resume that ends a pause at its time counts just before that, if it comes early."""
    record, at = command["record"], command["appended_at"]
    stamp = max(at, before.stamp + 1) if before else at
    return max(stamp, record["resume_at"] - 1) if record["kind"] == "RESUME" and record["resume_at"] else stamp


def _spec_of(record, made, offset):
    """What the command defines; of a rollback the spec of the version that it names, None where there is none."""
    if record["kind"] != "ROLLBACK":
        return record["spec"]
    named = record["to_revision"]
    found = [each for each in made if each.offset == named & MASK and each.offset < offset and named > MASK]
    if not found:
        return None
    stands = made[-1].spec if made[-1].status != "DELETED" else None
    return _with_newer(found[0].spec, policies.timing(stands)["calendars"] if stands else ())


def _with_newer(spec, offered):
    """The spec with the newer ones of the offered calendars in the place of those that it uses; itself without any."""
    said = json.loads(spec["timing"]) if spec["timing"] else {}
    newest = {use[0]: use for use in offered}
    uses = [max(use, newest.get(use[0], use), key=lambda each: each[1]) for use in said.get("calendars", ())]
    same = [list(use) for use in uses] == [list(use) for use in said.get("calendars", ())]
    return spec if same else {**spec, "timing": json.dumps({**said, "calendars": uses}, separators=(",", ":"))}


def _is_no_time(record, appended_at, stamp):
    """Whether a pause or a resume names an end that it cannot have."""
    resume_at = record["resume_at"]
    if not resume_at:
        return False
    if record["kind"] == "RESUME":
        return resume_at - appended_at > RESUME_AHEAD
    return record["kind"] == "PAUSE" and not stamp < resume_at <= stamp + PAUSE_MAX


def _is_refused(record, spec, made, standing, stamp, appended_at, rules):  # what a judge goes by
    """Whether the command asks for what cannot be, as the job stands."""
    before = made[-1] if made else None
    expected = record["expected_revision"]
    once = spec and spec["once"]
    return (
        (standing is None and record["kind"] != "CREATE")
        or record["hops"] > HOPS_MAX
        or gathering.is_left_over(made, record, standing)
        or (record["kind"] == "LAPSE" and record["due_at"] - appended_at > gathering.AHEAD)
        or (record["kind"] == "ROLLBACK" and spec is None)
        or (standing is not None and _is_no_end(record["kind"], standing))
        or (spec and not set(_pools(spec)) <= set(rules.pools))
        or (expected == -1 and standing and spec != standing.spec)
        or (expected > 0 and (before is None or before.offset != expected & MASK))
        or (before and once and once["once_at"] <= stamp and (standing is None or before.spec["once"] != once))
    )


def _is_no_end(kind, standing):
    """What has come to its end is neither paused nor resumed; and it ends only where its runs are bounded."""
    if standing.status == "ENDED" and kind in ("PAUSE", "RESUME"):
        return True
    is_bounded = bool(policies.timing(standing.spec)["max_runs"])
    return kind == "END" and (standing.status == "PAUSED" or not is_bounded)


def _pools(spec):
    """Where its work goes; of a Dag that of its nodes."""
    nodes = json.loads(spec["dag"])["nodes"] if spec["dag"] else [{}]
    return [node.get("pool", spec["pool"]) for node in nodes]


def _obeyed(judged, command, edge, rules):  # noqa: PLR0911  # a judge says its rule in one place
    """Apply a command that repeats none; returns the word for what became of it."""
    made, record, offset = judged.made, command["record"], command["offset"]
    before = made[-1] if made else None
    stamp = _stamp(command, before)
    standing = before if before and before.status != "DELETED" else None
    kind, spec = record["kind"], _spec_of(record, made, offset)
    at = command["appended_at"]
    if _is_refused(record, spec, made, standing, stamp, at, rules) or _is_no_time(
        record, command["appended_at"], stamp
    ):
        return "refused"
    if kind == "LAPSE" or gathering.is_gathered(record, standing):
        judged.gathered[offset] = gathering.Told(command["appended_at"], offset, standing, record)
        return "applied"
    if kind == "TRIGGER":
        judged.triggers.append(Trigger(command["appended_at"], offset, standing, record["payload"]))
        return "applied"
    if kind in ("CREATE", "UPDATE", "ROLLBACK"):
        if standing and spec == standing.spec:
            return "unchanged"
        start = spec["every"]["start_at"] if spec["every"] else 0
        anchor = stamp if start is None else start
        if spec["every"] and standing and standing.spec["every"] == spec["every"]:
            anchor = standing.anchor  # the interval is not what was changed
        status = "PAUSED" if standing and standing.status == "PAUSED" else "ACTIVE"
        pause = (standing.note, standing.resume_at) if standing else ("", 0)
        after = Version(offset, stamp, edge, status, spec, anchor, before is None, record["job_id"], *pause)
        made.append(after)
        return "applied"
    if kind == "CALENDAR":
        spec = _with_newer(standing.spec, json.loads(record["calendars"]) if record["calendars"] else ())
        if spec is standing.spec:
            return "unchanged"
        kept = standing._replace(offset=offset, stamp=stamp, edge=edge, spec=spec, first=False)
        made.append(kept)
        return "applied"
    status = {"PAUSE": "PAUSED", "RESUME": "ACTIVE", "DELETE": "DELETED", "END": "ENDED"}[kind]
    pause = (record["note"], record["resume_at"]) if kind == "PAUSE" else ("", 0)
    if status == standing.status and (kind != "PAUSE" or _says_nothing_new(pause, standing)):
        return "unchanged"
    after = standing._replace(offset=offset, stamp=stamp, edge=edge, status=status, first=False)
    made.append(after._replace(note=pause[0], resume_at=pause[1]))
    return "applied"


def _says_nothing_new(pause, standing):
    note, resume_at = pause
    return resume_at == standing.resume_at and note in ("", standing.note)


class Duty(typing.NamedTuple):
    """What is owed for one fire, by ``version``. ``reason`` "": a run, or where it came too late the skip that the
    job's misfire policy says; any other: the skip of that reason and nothing else. ``apart``: a command decided it."""

    version: Version
    reason: str
    apart: bool = False


_ENDS = {"PAUSED": "paused", "DELETED": "deleted", "ENDED": "ended"}


def owed(made, until, grace=MINUTE_US):
    """{fire: its Duty} for what is due up to ``until``: what must run or be skipped, each once.

    An older version's duty goes first: a fire time that it has decided is nobody else's.
    """
    found = {}
    for number, version in enumerate(made):
        following = made[number + 1] if number + 1 < len(made) else None
        if version.status == "ACTIVE":
            duties = _of_active(version, made[number + 1 :], until, grace)
        elif version.status == "PAUSED" and following:
            duties = _of_paused(version, following, until)
        else:
            duties = {}
        found = duties | found
        if following:
            found = _moved_up(version, following, grace) | found
    return found


def _of_active(version, later, until, grace):
    """Duties of a version while it stood; what was undecided when a pause or a delete came ends with that."""
    at = version.spec["once"] and version.spec["once"]["once_at"]
    if at is not None and calendars.moves(policies.timing(version.spec)):
        at = calendars.target(version.spec, policies.timing(version.spec), at)
    if at is not None and (at <= version.stamp or version.due(at) <= version.edge.at):
        return _behind(version, at, grace)
    following = later[0] if later else None
    ends = next((each for each in later if each.status != "ACTIVE"), None)
    found = {}
    for fire in fires(version.spec, version.anchor, version.stamp, _last_of(following, until)):
        due = version.due(fire)
        is_its_own = following is None or fire <= following.stamp or not following.edge.has_left(due)
        is_ended = bool(ends) and ends.edge.has_left(due) and fire <= ends.stamp
        if version.edge.has_left(due) and is_its_own and (due <= until or is_ended):
            found[fire] = Duty(version, _ENDS[ends.status] if is_ended else "")
    return found


def _of_paused(version, following, until):
    """A pause covers what came up to the stamp of the next command, and until that was applied.

    But of a one-off only what came between the stamps, wherever the edges lie: one behind that is left to the command
    that finds it behind, or to the pause that goes on.
    """
    if version.spec["once"]:
        found = fires(version.spec, version.anchor, version.stamp, min(following.stamp, until))
        return dict.fromkeys(found, Duty(version, "paused"))
    found = {}
    for fire in fires(version.spec, version.anchor, version.stamp, min(_last_of(following, until), until)):
        due = version.due(fire)
        is_its_own = fire <= following.stamp or not following.edge.has_left(due)
        if version.edge.has_left(due) and is_its_own:
            found[fire] = Duty(version, "paused")
    return found


def _moved_up(version, following, grace):
    """What was still held back by a jitter when the next command came, and lies behind the edge by that one's: both
    have that fire, and it is decided with the command; while the job is paused the pause covers it."""
    statuses = version.status, following.status
    if statuses not in (("ACTIVE", "ACTIVE"), ("PAUSED", "PAUSED")) or following.spec["once"]:
        return {}
    is_paused, edge, found = version.status == "PAUSED", following.edge.at, {}
    moved = set(fires(following.spec, following.anchor, following.stamp, edge))
    for fire in moved.intersection(fires(version.spec, version.anchor, version.stamp, edge)):
        if is_paused and version.spec["once"]:
            was_left = True
        else:
            was_left = version.edge.has_left(version.due(fire)) and version.due(fire) > edge
        if was_left and following.due(fire) <= edge:
            found |= {fire: Duty(version, "paused")} if is_paused else _apart(following, fire, grace)
    return found


def _last_of(following, until):
    return max(following.stamp, following.edge.at) if following else until


def _behind(version, at, grace):
    """A one-off that lies behind when a command comes, whatever that does, is decided by it, as late as it is then."""
    if (at <= version.stamp and not version.first) or not fires(version.spec, version.anchor, at - 1, at):
        return {}
    return _apart(version, at, grace)


def _apart(version, at, grace):
    """What a command makes of a fire that it decides by itself."""
    late_as_of = max(version.stamp, version.edge.at)
    blocked = {at} if is_blocked(version, at) else ()
    reasons = policies.outcomes({at: version.due(at)}, policies.timing(version.spec), late_as_of, grace, blocked)
    return {at: Duty(version, reasons[at], True)}


def is_blocked(version, fire):
    """Whether a calendar of that version, and of no other, blocks the fire."""
    return calendars.is_blocked(version.spec, policies.timing(version.spec), fire)


def expand(skipped, made):
    """The fires that a SKIPPED range covers, by the schedule of the version it names; None: there is no such one."""
    version = next((each for each in made if each.offset == skipped["revision"] & MASK), None)
    if version is None:
        return None
    return fires(version.spec, version.anchor, skipped["from_at"] - 1, skipped["to_at"])
