"""How late is too late in a play: what a plan's troubles leave, and what its small rounds take for it.

Told by the plan and by the commands that were sent; no core is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

from tests.oracle.timeliness import Bounds
from waterclock.model.ids import US_PER_S
from waterclock.model.timing import Misfire

from .buggify import SMALL
from .plan import Plan

RawRecord = dict[str, object]
_NOBODY_FIRES = ("absence", "sleep", "jump", "outage")
_FULL_ROUNDS = 1_000
_SMALL_ROUNDS = {"commands applied at a time", "commands polled at a time"}
_SMALL_READING = "events of open runs at a time"
"""A take-over reads a thousand of them in a hundred turns, and decides nothing before."""
_SMALL_READ_BACK, _SMALL_CONTROL = "records read back at a time", "records of control at a time"
_TURNS_TO_HEAR = 10
"""Some polls in a row may bring next to nothing."""
_LONG_GONE_US = 3_600 * US_PER_S
_BACKLOG_US, _SETTLED_US, QUICK_US = 120 * US_PER_S, 25 * US_PER_S, 3 * US_PER_S
"""Of 300 seeds the worst were 53 s, and once settled 1.7 s: a turn of a dispatcher that finds nothing to do."""
_OUTAGE_SHARE = 4
"""Of the length of outages, on top: plans let the lane take one job a second, or one record of twenty. Of 500 seeds the
worst were 132 s for 45 minutes of outages, 151 s for 11, 123 s for two and a half; 183 s after four minutes and two
jumps of 70 s each."""
_ROUND_US = 500_000
"""Of a dispatcher that is behind: rounds of 0.42 s where commits are slow."""
_TURN_US = US_PER_S
"""Of a dispatcher that has work, and applies one command in it."""
_TURN_OF_FEW_US = 2 * US_PER_S
"""The same where a round has room for a few records, and fires have a part in them: 464 commands took 341 s where the
turns of a second allowed 306 (``regressions/many-commands-in-rounds-of-three.json``)."""
_SLOW_PER_S = 1.0
_LONG_MISSED_US = 600 * US_PER_S
"""More than that leaves no more to make up: policies take so many fires and no more."""


def bounds_of(plan: Plan, commands: Sequence[RawRecord]) -> Bounds:
    """How late is too late. Rounds of one fire or command and buckets of two hours cost turns, a second each."""
    gone_us = max((each.us for each in plan.troubles if each.kind in _NOBODY_FIRES), default=0)
    is_full = plan.pace.round_records >= _FULL_ROUNDS and not _SMALL_ROUNDS & set(plan.small)
    is_quick = is_full and gone_us < _LONG_GONE_US and _SMALL_READING not in plan.small
    within_us = _BACKLOG_US + _missed_us(plan) // _OUTAGE_SHARE
    if plan.pace.round_records < _FULL_ROUNDS:
        within_us += _paid_for_us(plan)
    if _SMALL_ROUNDS & set(plan.small):
        within_us += _longest_wait_us(plan, commands)  # fires wait behind commands with earlier stamps
    return Bounds(within_us, _SETTLED_US, QUICK_US if is_quick else within_us)


def turns_to_hear(plan: Plan, events: Sequence[RawRecord], control: Sequence[RawRecord]) -> int:
    """In how many turns a worker reads that an attempt of its own is cancelled. In small slices it comes to a cancel
    behind all others that were sent with it, and to what is on file behind the whole history of the partition."""
    turns = _TURNS_TO_HEAR
    if _SMALL_READ_BACK in plan.small:
        turns += 2 * len(events) // SMALL[_SMALL_READ_BACK].value
    if _SMALL_CONTROL in plan.small:
        turns += 2 * len(control) // SMALL[_SMALL_CONTROL].value
    return turns


def _missed_us(plan: Plan) -> int:
    """For how long fires were missed, as far as it makes the backlog longer. What an absence or a jump leaves fits into
    the bound, but where the lane takes one job a second."""
    is_slow = 0 < plan.pace.catch_up_per_s <= _SLOW_PER_S
    missed = [each.us for each in plan.troubles if each.kind == "outage"]
    missed += [min(each.us, _LONG_MISSED_US) for each in plan.troubles if is_slow and each.kind in ("absence", "jump")]
    return sum(missed)


def _paid_for_us(plan: Plan) -> int:
    """Where all that was missed is wanted a job brings it at once, and the lane pays for that with its share of later
    rounds. Of rounds of one record, of which it has a quarter, a hundred runs take 400: 156 s, for which all who come
    behind that job wait (``regressions/rounds-of-one-record-after-an-outage.json``)."""
    missed = sum(each.us for each in plan.troubles if each.kind in _NOBODY_FIRES)
    most: Counter[str] = Counter()
    for order in plan.orders:
        if order.spec is not None and order.spec.timing.misfire is Misfire.ALL:
            most[order.job_id] = max(most[order.job_id], order.spec.timing.catch_up_max)
    runs = sum(min(each, max(0, missed) // US_PER_S) for each in most.values())
    records = max(1, plan.pace.round_records // plan.partitions)
    return round(runs * _ROUND_US / (records * plan.pace.catch_up_share))


def _longest_wait_us(plan: Plan, commands: Sequence[RawRecord]) -> int:
    """How long a command may wait for those before it where each takes a turn of its own: all of the play in one line,
    whatever the partitions, for one dispatcher may own them all (``regressions/many-commands-one-a-turn.json``)."""
    turn_us = _TURN_US if plan.pace.round_records >= _FULL_ROUNDS else _TURN_OF_FEW_US
    longest_us = done_at = 0
    for sent_at in sorted(cast("int", command["timestamp_us"]) for command in commands):
        done_at = max(done_at, sent_at) + turn_us
        longest_us = max(longest_us, done_at - sent_at)
    return longest_us
