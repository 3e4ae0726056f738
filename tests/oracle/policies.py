"""Jitter, calendars and misfire policies, by their documented rules alone. Imports nothing of ours.

A spec is the record of a command; its ``timing`` is JSON that says only what differs from the defaults. Instants and
lengths are microseconds.
"""

import functools
import hashlib
import json
import types

SECOND_US = 1_000_000
DEFAULTS = {
    "from_at": 0,
    "until_at": 0,
    "misfire": "latest",
    "catch_up_max": 100,
    "catch_up_window_us": 86_400 * SECOND_US,
    "catch_up_order": "oldest",
    "jitter_us": 0,
    "jitter_per_fire": False,
    "calendars": (),
    "on_calendar": "skip",
    "balanced": False,
    "placed_us": -1,
    "pause_after_failures": 0,
    "max_runs": 0,
}
MISSED = ("coalesced", "misfire", "cap", "expired")
"""Reasons of fires that came too late."""

CALENDAR = "calendar"
BY_POLICY = (*MISSED, CALENDAR)
"""Reasons of fires that were to run, but for what their job says of such."""

MAX_RUNS = "max_runs"
DROPPED = ("overlap", "withdrawn", MAX_RUNS)
"""Reasons of fires that an overlap policy, a delete, or the number of runs has dropped; they had to run otherwise."""

BESIDE = {"overlap": "allow", "max_concurrent": 0, "key": "", "max_per_key": 0, "max_held": 0}


@functools.lru_cache(maxsize=4_096)
def _beside(text):
    return types.MappingProxyType(BESIDE | (json.loads(text) if text else {}))


def beside(spec):
    """What a spec says of runs beside one another, defaults included."""
    return _beside(spec["concurrency"])


NEIGHBOURS_MAX = 16
"""So many blocked fires of a minute have an event each; of more the first one's is for all, up to a minute ahead."""


def timing(spec):
    """What a spec says of its fires, defaults included."""
    return _timing(spec["timing"])


@functools.lru_cache(maxsize=4_096)
def _timing(text):
    return types.MappingProxyType(DEFAULTS | (json.loads(text) if text else {}))


def due(job_id, spec, fire):
    """When a fire is due: its offset is a hash of the job, or of the job and the fire."""
    said = timing(spec)
    if not said["jitter_us"]:
        return fire
    if said["placed_us"] >= 0:
        return fire + said["placed_us"]
    text = f"{job_id}@{fire}" if said["jitter_per_fire"] else job_id
    number = hashlib.blake2b(text.encode(), digest_size=8, salt=b"jitter/1").digest()
    return fire + int.from_bytes(number, "big") % said["jitter_us"]


def outcomes(owed, said, at, grace, blocked=frozenset()):
    """{fire: why it is skipped, "" where it runs} for all that a job owes at the instant ``at``: {fire: its due time}.

    ``said``: the timing of the version that owes the newest of them. ``blocked``: those that a calendar blocks.
    """
    if not owed or min(owed.values()) >= at - grace:
        return {fire: CALENDAR if fire in blocked else "" for fire in owed}
    found = {}
    for fire in sorted(owed):
        if owed[fire] < at - said["catch_up_window_us"]:
            found[fire] = "expired"
        elif fire in blocked:
            found[fire] = CALENDAR
        elif said["misfire"] == "skip" and owed[fire] < at - grace:
            found[fire] = "misfire"
    rest = [fire for fire in sorted(owed) if fire not in found]
    if said["misfire"] == "latest":
        found |= dict.fromkeys(rest[:-1], "coalesced")
    elif said["misfire"] == "all":
        found |= dict.fromkeys(rest[: max(0, len(rest) - said["catch_up_max"])], "cap")
    return {fire: found.get(fire, "") for fire in sorted(owed)}
