"""How much the dispatchers still catch up after an outage, and when that will be over. Reads positions, writes nothing.

Cursor and gaps ride in the metadata of the dispatchers' offsets. Where gaps are open it looks twice, ``WATCH_S`` apart,
to know the speed. How it fails: a backend that does not answer is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from waterclock.clock import Clock
from waterclock.log.port import Log
from waterclock.model.catch_up_eta import CatchUpEta, told_by
from waterclock.model.cursor_text import Told
from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.time_text import format_rfc3339
from waterclock.wire.names import Names

from .finding import Finding, State, ok

CHECK = "catch-up"
WATCH_S = 3.0


def examine(log: Log, names: Names, clock: Clock, wait: Callable[[float], None]) -> Iterator[Finding]:
    """The finding; nothing where the topics are missing."""
    try:
        eta = CatchUpEta()
        told = _look(log, names, clock, eta)
        if any(each.gaps for each in told):
            wait(WATCH_S)
            told = _look(log, names, clock, eta)
        yield judge(told, eta)
    except NotFound:
        return
    except BackendDown as trouble:
        yield Finding(CHECK, State.WARN, str(trouble), "It cannot be judged now")


def judge(told: list[Told], eta: CatchUpEta) -> Finding:
    """``told``: of every shard, at the last look."""
    gaps = [gap for each in told for gap in each.gaps]
    if not gaps:
        return ok(CHECK, "nothing that was missed is still to be caught up")
    begin, end = format_rfc3339(min(gap.from_at for gap in gaps)), format_rfc3339(max(gap.to_at for gap in gaps))
    found = f"{eta.owed} due rows in {len(gaps)} gaps, of {begin} to {end}, are still to come"
    if eta.eta_s is None:
        next_step = "They became no fewer in this look: does a dispatcher run? Its log says `catching up`"
        return Finding(CHECK, State.WARN, found, next_step)
    return ok(CHECK, f"{found}; at {eta.per_s:.0f} a second in about {eta.eta_s:.0f} s")


def _look(log: Log, names: Names, clock: Clock, eta: CatchUpEta) -> list[Told]:
    told = told_by(at.metadata for at in log.group_positions(names.group("dispatcher")).values())
    eta.look(sum(each.row_count for each in told), clock.monotonic_s())
    return told
