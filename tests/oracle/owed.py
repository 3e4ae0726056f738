"""The judge of the books: which fires were owed, by brute force over the dumps of commands and REVISED.

Imports nothing of ours. Commands are dicts ``{"offset", "appended_at", "record"}`` of one job in log order; the edges
come from REVISED events (``{revision offset: edge}``). Instants are microseconds.
"""

import datetime as dt
import typing

from . import brute_force

MINUTE_US = 60_000_000


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


def versions(commands, edges):
    """(versions in order, triggers as (stamp, offset), refused offsets) that the commands of one job make."""
    made, triggers, refused = [], [], []
    for command in commands:
        record, before = command["record"], made[-1] if made else None
        stamp = max(command["appended_at"], before.stamp + 1) if before else command["appended_at"]
        standing = before if before and before.status != "DELETED" else None
        kind, offset = record["kind"], command["offset"]
        edge = edges.get(offset, 0)
        if standing is None and kind != "CREATE":
            refused.append(offset)
        elif kind == "TRIGGER":
            triggers.append((stamp, offset))
        elif kind in ("CREATE", "UPDATE"):
            spec = record["spec"]
            if standing and spec == standing.spec:
                continue
            once = spec["once"]
            if before and once and once["once_at"] <= stamp and before.spec["once"] != once:
                refused.append(offset)
                continue
            start = spec["every"]["start_at"] if spec["every"] else 0
            anchor = stamp if start is None else start
            status = standing.status if standing else "ACTIVE"
            made.append(Version(offset, stamp, edge, status, spec, anchor, True, before is None))
        else:
            status = {"PAUSE": "PAUSED", "RESUME": "ACTIVE", "DELETE": "DELETED"}[kind]
            if status != standing.status:
                made.append(
                    standing._replace(
                        offset=offset, stamp=stamp, edge=edge, status=status, brings_spec=False, first=False
                    )
                )
    return made, triggers, refused


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
    version = next(each for each in made if each.offset == skipped["revision"] & ((1 << 48) - 1))
    return fires(version.spec, version.anchor, skipped["from_at"] - 1, skipped["to_at"])
