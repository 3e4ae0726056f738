"""Histories of a plain model balance, whatever happens in them; with one fact removed or doubled they never do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ledger_history import History, every, kinds, second_cron, total
from waterclock.model.ids import US_PER_S
from waterclock.model.job import JobSpec, JobStatus
from waterclock.model.timing import Timing

SPAN_S = 900


@st.composite
def specs(draw: Any) -> JobSpec:
    """Half of them with jitter, of up to half a gap; some end within the history, or begin there."""
    make = draw(st.sampled_from([every, second_cron]))
    gap_s = draw(st.sampled_from([15, 20, 30] if make is second_cron else [20, 30, 47, 60, 200]))
    window_s = draw(st.sampled_from([0, 0, 7, gap_s // 2]))
    from_s, lasts_s = draw(st.sampled_from([0, 0, 100, 410])), draw(st.sampled_from([0, 0, 250]))
    timing = Timing(
        from_at=History.at(from_s) if from_s else 0,
        until_at=History.at(from_s + lasts_s) if lasts_s else 0,
        jitter_us=window_s * US_PER_S,
        jitter_per_fire=bool(window_s) and draw(st.booleans()),
    )
    return make(gap_s, timing)


@st.composite
def histories(draw: Any) -> History:
    """Commands whose stamps lie before or behind the owner's edge, backlogs that are coalesced, pauses, deletes."""
    history = History()
    stamp_s = draw(st.integers(0, 20))
    history.edge_s = draw(st.integers(0, 20))
    history.command(stamp_s, spec=draw(specs()))
    for _ in range(draw(st.integers(1, 8))):
        until_s = min(history.edge_s + draw(st.integers(1, 200)), SPAN_S)
        begin = draw(st.integers(0, SPAN_S))
        history.fire(until_s, coalesced=draw(st.sampled_from([(0, 0), (begin, begin + 150)])))
        if draw(st.booleans()):
            stamp_s = max(stamp_s + 1, history.edge_s + draw(st.integers(-40, 60)))
            status = history.versions[-1].status
            if status is JobStatus.DELETED:
                history.command(stamp_s, JobStatus.ACTIVE, draw(specs()))
            else:
                wanted = draw(st.sampled_from([JobStatus.ACTIVE, JobStatus.PAUSED, JobStatus.DELETED]))
                edited = draw(specs()) if wanted is JobStatus.ACTIVE and draw(st.booleans()) else None
                history.command(stamp_s, wanted, edited)
    history.fire(max(SPAN_S, stamp_s + 1))
    return history


@given(histories())
@settings(max_examples=150, deadline=None)
def test_every_history_of_the_model_balances(history: History) -> None:
    found = total(history.judged(decided_s=history.edge_s + 1))
    assert found.is_balanced, found.named
    assert found.owed == found.runs + found.skipped.total()


@given(histories(), st.data())
@settings(max_examples=100, deadline=None)
def test_every_part_of_it_balances_too(history: History, data: Any) -> None:
    from_s = data.draw(st.integers(1, history.edge_s))
    decided_s = data.draw(st.integers(from_s + 1, history.edge_s + 1))
    found = total(history.judged(from_s, decided_s))
    assert found.is_balanced, found.named
    assert found.owed == found.runs + found.skipped.total()


@given(histories(), st.data())
@settings(max_examples=200, deadline=None)
def test_with_one_fact_removed_it_never_balances(history: History, data: Any) -> None:
    del history.events[data.draw(st.integers(0, len(history.events) - 1))]
    assert kinds(history.judged(decided_s=history.edge_s + 1))


@given(histories(), st.data())
@settings(max_examples=200, deadline=None)
def test_with_one_fact_doubled_it_never_balances(history: History, data: Any) -> None:
    history.events.append(history.events[data.draw(st.integers(0, len(history.events) - 1))])
    assert kinds(history.judged(decided_s=history.edge_s + 1))
