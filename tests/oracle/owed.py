"""The judge of the books: which fires were owed, by brute force over the dumps of commands and REVISED.

Imports nothing of ours. Commands are dicts ``{"offset", "appended_at", "record"}`` of one job in log order; the edges
come from REVISED events (``{revision offset: edge}``). Instants are microseconds.
"""

import datetime as dt
import typing

from . import brute_force

MINUTE_US = 60_000_000
DAY_US = 86_400_000_000
MASK = (1 << 48) - 1
ABOUT_RUNS = ("CANCEL", "REDRIVE", "DISCARD", "DEFER")


class Version(typing.NamedTuple):
    """What one command made of a job."""

    offset: int
    stamp: int
    edge: int
    status: str
    spec: dict
    anchor: int
    brings_spec: bool
    first: bool


def run_id(job_id, fire_at, series=0):
    """The documented text of a run id."""
    whole, fraction = divmod(fire_at, 1_000_000)
    text = dt.datetime.fromtimestamp(whole, dt.UTC).strftime("%Y%m%dT%H%M%S")
    text += f".{fraction:06d}Z" if fraction else "Z"
    return f"{job_id}@{text}" + (f"~{series}" if series else "")


def instant_of(run):
    """The fire time inside a run id."""
    text = run.partition("@")[2].partition("~")[0].removesuffix("Z")
    whole, _, fraction = text.partition(".")
    at = dt.datetime.strptime(whole, "%Y%m%dT%H%M%S").replace(tzinfo=dt.UTC)
    return int(at.timestamp()) * 1_000_000 + int(fraction or 0)


def fires(spec, anchor, after, until):
    """All fires in (after, until], one by one."""
    if until <= after:
        return []
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
    """What the books are judged by: how long a repeat is one, and the pools that exist."""

    repeat_within: int = DAY_US
    pools: tuple = ("default",)


class Verdict(typing.NamedTuple):
    """What had to become of a command: applied, unchanged, repeated or refused. ``first``: the command it repeats."""

    word: str
    stands: int
    first: int = -1


class Judged(typing.NamedTuple):
    """What the commands of one job had to make: versions in order, triggers as (stamp, offset), verdicts by offset.

    ``redrives``: the offsets of those that had to make another run of a dead letter's work.
    """

    made: list
    triggers: list
    verdicts: dict
    redrives: list

    @property
    def refused(self):
        return [offset for offset, verdict in self.verdicts.items() if verdict.word == "refused"]


def versions(commands, edges, rules=Rules()):  # noqa: B008  # a value
    """What the commands of one job had to make."""
    judged, served = Judged([], [], {}, []), {}
    for command in commands:
        record, offset = command["record"], command["offset"]
        name = (True, record["idempotency_key"]) if record["idempotency_key"] else (False, record["command_id"])
        # Not the revision that it was asked of: a door that fills in the one that stands reads another one next time.
        body = (record["kind"], repr(record["spec"]), record["payload"])
        about = record["kind"] in ABOUT_RUNS
        body += (record["run_id"], record["due_at"], record["work"]) if about else ()
        first = served.get(name)
        if first and command["appended_at"] - first["appended_at"] <= rules.repeat_within:
            stands = _stands(judged)
            same = first["body"] == body
            stands = -1 if about else stands
            verdict = Verdict("repeated", first["stands"], first["offset"]) if same else Verdict("refused", stands)
        elif about:
            verdict = Verdict(_passed_on(judged, offset, record), -1)
            if verdict.word != "refused" and name[1]:
                served[name] = {**command, "body": body, "stands": -1}
        else:
            word = _obeyed(judged, command, edges.get(offset, 0), rules)
            verdict = Verdict(word, _stands(judged))
            if word != "refused" and name[1]:
                served[name] = {**command, "body": body, "stands": verdict.stands}
        judged.verdicts[offset] = verdict
    return judged


def _passed_on(judged, offset, record):
    """A command about one run: what is well-formed is passed on, whatever stands; the log decides what it comes to."""
    kind = record["kind"]
    named = record["run_id"].partition("@")[0] == record["job_id"]
    if (kind != "DEFER" and not named) or (kind in ("REDRIVE", "DEFER") and not record["work"]):
        return "refused"
    if kind == "REDRIVE":
        judged.redrives.append(offset)
    return "applied"


def _stands(judged):
    """The offset of the version that stands; -1: none."""
    return judged.made[-1].offset if judged.made else -1


def _is_refused(record, before, standing, stamp, rules):
    """Whether the command asks for what cannot be, as the job stands."""
    expected, spec = record["expected_revision"], record["spec"]
    once = spec and spec["once"]
    return (
        (standing is None and record["kind"] != "CREATE")
        or (spec and spec["pool"] not in rules.pools)
        or (expected == -1 and standing and spec != standing.spec)
        or (expected > 0 and (before is None or before.offset != expected & MASK))
        or (before and once and once["once_at"] <= stamp and before.spec["once"] != once)
    )


def _obeyed(judged, command, edge, rules):
    """Apply a command that repeats none; returns the word for what became of it."""
    made, record, offset = judged.made, command["record"], command["offset"]
    before = made[-1] if made else None
    stamp = max(command["appended_at"], before.stamp + 1) if before else command["appended_at"]
    standing = before if before and before.status != "DELETED" else None
    kind, spec = record["kind"], record["spec"]
    if _is_refused(record, before, standing, stamp, rules):
        return "refused"
    if kind == "TRIGGER":
        judged.triggers.append((stamp, offset))
        return "applied"
    if kind in ("CREATE", "UPDATE"):
        if standing and spec == standing.spec:
            return "unchanged"
        start = spec["every"]["start_at"] if spec["every"] else 0
        anchor = stamp if start is None else start
        status = standing.status if standing else "ACTIVE"
        made.append(Version(offset, stamp, edge, status, spec, anchor, True, before is None))
        return "applied"
    status = {"PAUSE": "PAUSED", "RESUME": "ACTIVE", "DELETE": "DELETED"}[kind]
    if status == standing.status:
        return "unchanged"
    made.append(standing._replace(offset=offset, stamp=stamp, edge=edge, status=status, brings_spec=False, first=False))
    return "applied"


def owed(made, until):
    """{fire: offset of the version that owes it} up to ``until``: what must run or be skipped, each once."""
    found = {}
    for version, following in zip(made, [*made[1:], None], strict=False):  # a job may have no version at all
        floor = max(version.stamp, version.edge)
        if version.status == "ACTIVE":
            end = max(following.stamp, following.edge) if following else until
            due = fires(version.spec, version.anchor, floor, min(end, until))
            if version.brings_spec and version.spec["once"]:
                at = version.spec["once"]["once_at"]
                if at <= floor and (version.first or at > version.stamp):
                    due = [at]
        elif version.status == "PAUSED" and following:
            due = fires(version.spec, version.anchor, floor, min(following.stamp, until))
        else:
            due = []
        for fire in due:
            found.setdefault(fire, version.offset)
    return found


def expand(skipped, made):
    """The fires that a SKIPPED range covers, by the schedule of the version it names."""
    version = next(each for each in made if each.offset == skipped["revision"] & MASK)
    return fires(version.spec, version.anchor, skipped["from_at"] - 1, skipped["to_at"])
