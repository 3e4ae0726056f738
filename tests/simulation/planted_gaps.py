"""Bugs of gaps beside the cursor: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import catch_up, gap_owed, jump, takeover
from waterclock.dispatcher.gap_owed import OwedInGap
from waterclock.dispatcher.gaps import Gap, Progress
from waterclock.dispatcher.known import Known
from waterclock.dispatcher.misfire import Decision, Fire
from waterclock.dispatcher.owed import Stretch
from waterclock.dispatcher.shard import Shard

from waterclock.model.ids import Instant

Planted = Callable[[], AbstractContextManager[None]]
_FOR_EVER_US = 10**15


@contextmanager
def position_forgotten() -> Iterator[None]:
    """Whoever takes over begins every gap anew."""

    def decode(text: str) -> Progress:
        progress = right(text)
        gaps = tuple(gap._replace(position=gap.start) for gap in progress.gaps)
        return progress._replace(gaps=gaps)

    right = takeover.decode_progress
    with mock.patch.object(takeover, "decode_progress", decode):
        yield


@contextmanager
def chains_left_behind() -> Iterator[None]:
    """The edge jumps, and nobody has written the rows of the first fires beyond it."""
    with mock.patch.object(jump, "first_rows_beyond", return_value=[]):
        yield


@contextmanager
def gaps_forgotten() -> Iterator[None]:
    """Whoever takes over knows the cursor alone, as before there were gaps."""

    def decode(text: str) -> Progress:
        return Progress(right(text).cursor)

    right = takeover.decode_progress
    with mock.patch.object(takeover, "decode_progress", decode):
        yield


@contextmanager
def pause_of_the_present() -> Iterator[None]:
    """A pause or a delete ends what is due from now on, and leaves what is still owed in gaps to nobody."""
    with mock.patch.object(Known, "owed_in_gaps", return_value=[]):
        yield


@contextmanager
def no_policy() -> Iterator[None]:
    """All that was missed runs, as if it were on time."""

    def decide(owed: Sequence[Stretch], first_due_at: Instant, now: Instant, _grace_us: int) -> Decision:
        return right(owed, first_due_at, now, _FOR_EVER_US)

    right = catch_up.decide_together
    with mock.patch.object(catch_up, "decide_together", decide):
        yield


@contextmanager
def half_of_it() -> Iterator[None]:
    """A job's fires in a gap are decided in two parts, each by the policy: the newest of either runs."""

    def decide(shard: Shard, out: Any, job_id: str, owed: OwedInGap, now: Instant, grace_us: int) -> Decision:
        version, after, until = owed.owed[-1]
        middle = (after + until) // 2
        first = owed._replace(owed=(*owed.owed[:-1], Stretch(version, after, middle)))
        parts = [first, owed._replace(owed=(Stretch(version, middle, until),))]
        runs: tuple[Fire, ...] = ()
        for part in parts:
            place = gap_owed._place_of(job_id, part.owed)
            if place is not None:
                runs += right(shard, out, job_id, part._replace(place=place), now + len(runs), grace_us).runs
        return Decision(runs, ())

    right = catch_up._decide
    with mock.patch.object(catch_up, "_decide", decide):
        yield


@contextmanager
def closed_too_soon() -> Iterator[None]:
    """A gap is closed once it is read, although jobs still wait for their places."""

    def close(shard: Shard) -> Gap | None:
        if shard.lane is not None and shard.lane.walk.is_over:
            closed, shard.gaps, shard.lane = shard.gaps[0], shard.gaps[1:], None
            return closed
        return None

    with mock.patch.object(catch_up, "close_gap", close):
        yield


PLANTED_GAPS: dict[str, Planted] = {
    "gap begun anew at a take-over": position_forgotten,
    "gaps forgotten at a take-over": gaps_forgotten,
    "chain left behind in a gap": chains_left_behind,
    "pause forgets what is owed in gaps": pause_of_the_present,
    "catch-up of a gap without its policy": no_policy,
    "gap decided in two parts": half_of_it,
    "gap closed too soon": closed_too_soon,
}
