"""Both reducers, written apart from each other, come to the same of a DagRun and all its nodes after every event.

The product's is the fold, which keeps them together; and a fold that begins further on, from what was kept, too.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import reducer as judge
from tests.oracle.records import decode
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.events import Ended, EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.fold import Fold
from waterclock.model.job import Tier
from waterclock.model.reduce import Ignored, RunState
from waterclock.wire.codec import encode_event

JOB = "acme:nightly"
DAG_RUN = f"{JOB}@20261121T090000Z"
OTHER = f"{JOB}@20261122T090000Z"
NODES = (f"{DAG_RUN}/load", f"{DAG_RUN}/map.3", f"{DAG_RUN}/join")
IDS = (DAG_RUN, OTHER, *NODES, f"{OTHER}/load", f"{JOB}@20261123T090000Z/stray")
BIRTHS = {EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED, EventKind.NODE_SKIPPED}
ENDS = {EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED}
NOT_WRITTEN = {EventKind.UNKNOWN, EventKind.REVISED, EventKind.ANSWERED, EventKind.BACKFILL}

KINDS = sorted(set(EventKind) - NOT_WRITTEN)


class Draft(NamedTuple):
    """What is to be written next. ``kind`` None: what carries that run on. ``honest``: attempt and owner are right."""

    run_id: str
    kind: EventKind | None
    attempt: int
    honest: bool


DRAFTS = st.lists(
    st.builds(
        Draft,
        st.one_of(st.sampled_from(NODES), st.sampled_from([DAG_RUN, *NODES]), st.sampled_from(IDS)),
        st.one_of(st.none(), st.none(), st.none(), st.sampled_from(KINDS)),
        st.integers(0, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


def next_kind(state: RunState | None, draft: Draft) -> EventKind:
    """What carries a run on, or now and then ends a DagRun."""
    if state is None or state.held:
        return EventKind.NODE_SKIPPED if "/" in draft.run_id and draft.attempt == 3 else EventKind.PENDING
    if state.is_dag:
        return [EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED, EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED][
            draft.attempt
        ]
    if state.attempt_open:
        return [EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED, EventKind.ATTEMPT_LOST][draft.attempt % 3]
    if state.undecided:
        return EventKind.RUN_FAILED if draft.attempt == 2 else EventKind.RETRYING
    return EventKind.STARTED


def written(draft: Draft, state: RunState | None, offset: int) -> RunEvent:
    kind = next_kind(state, draft) if draft.kind is None else draft.kind
    attempt, worker, token = draft.attempt, "w-1", offset
    if state is not None and (draft.honest or draft.kind is None):
        attempt = state.attempt + (kind in (EventKind.STARTED, EventKind.RETRYING))
        token = state.token
    event = RunEvent(kind, JOB, draft.run_id, offset, attempt, worker, 3, token)
    if kind is EventKind.PENDING:
        dag = DagStart() if draft.run_id == DAG_RUN else None
        # A skipped fire gives way to a backfill's, whatever that is; a node gives way to nothing.
        origin = Origin.BACKFILL if draft.honest else Origin.RELEASE
        return event._replace(detail=Pending(1, 5, None, Tier.HIGH, origin, dag=dag))
    if kind is EventKind.SKIPPED:
        return event._replace(detail=Skipped(1, 5, 5, 1, Tier.HIGH, 5))
    if kind is EventKind.NODE_SKIPPED:
        return event._replace(detail=NodeSkipped(NodeEnd.SKIPPED))
    return event._replace(detail=Ended(1)) if kind.startswith("ATTEMPT_") else event


def said_of(state: RunState | None) -> tuple[Any, ...] | None:
    if state is None:
        return None
    names = (RunStatus(state.status).name, state.attempt, Outcome(state.outcome).name, state.held, state.worker)
    return (*names, state.cancel_requested, state.expired, state.is_dag, state.paused)


def meant_by(run: dict[str, Any] | None) -> tuple[Any, ...] | None:
    if run is None:
        return None
    names = tuple(run[name] for name in ("status", "attempt", "outcome", "held", "worker", "cancel", "expired"))
    return (*names, run["nodes"] is not None, run["paused"])


@given(st.booleans(), DRAFTS)
@settings(max_examples=300, deadline=None)
def test_both_reducers_come_to_the_same_of_every_run_of_a_dag_after_every_event(
    held: bool, drafts: list[Draft]
) -> None:
    fold: Fold[object] = Fold()
    runs: dict[str, dict[str, Any]] = {}
    start = [Draft(DAG_RUN, kind, 0, honest=True) for kind in (EventKind.HELD, EventKind.PENDING)][not held :]
    for offset, draft in enumerate([*start, *drafts]):
        event = written(draft, fold.state(draft.run_id), offset)
        before = {run_id: fold.state(run_id) for run_id in IDS}
        verdict = fold.apply(event, offset)
        changed = judge.changes(runs, decode(encode_event(event))[1], offset)
        runs |= changed
        assert verdict.accepted == bool(changed), (event.kind, verdict.reason)
        for run_id in IDS:
            assert said_of(fold.state(run_id)) == meant_by(runs.get(run_id)), (run_id, event.kind)
        moved = {run_id for run_id in IDS if fold.state(run_id) != before[run_id]}
        assert {run_id for run_id, _ in fold.touched} == moved - {event.run_id}
        for run_id, state in before.items():  # a final status never changes
            assert state is None or not state.final or fold.state(run_id) == state
    for run_id, run in fold.open.items():
        assert run.dag is None or run.dag.run_id == run_id.partition("/")[0]


@given(DRAFTS, st.data())
@settings(max_examples=250, deadline=None)
def test_a_successor_knows_what_its_predecessor_knew_of_a_dag_run(drafts: list[Draft], data: st.DataObject) -> None:
    """From what was kept of any open run, and from where the pins of the others allow.

    But for the limits that the fold states: a second birth that is read again without the first, and an end of a
    DagRun that is claimed while a node is open.
    """
    fold: Fold[object] = Fold(window=1)
    stream: list[RunEvent] = []
    born: set[str] = set()
    start = Draft(DAG_RUN, EventKind.PENDING, 0, honest=True)
    kept: dict[str, tuple[RunState, int]] = {}
    for draft in [start, *drafts]:
        state, offset = fold.state(draft.run_id), len(stream)
        event = written(draft, state, offset)
        if event.kind in BIRTHS and event.run_id in born and not (state is not None and state.held):
            continue
        if event.kind in ENDS and any(fold.state(node) and not fold.state(node).final for node in NODES):
            continue
        if fold.apply(event, offset).accepted:
            born.add(event.run_id)
        stream.append(event)
        if data.draw(st.integers(0, 5)) == 0:
            for run_id in fold.pinned_below(fold.position, 10):
                if data.draw(st.booleans()):
                    kept[run_id] = (fold.open[run_id].state, fold.position)
                    fold.keep(run_id)
    successor: Fold[object] = Fold(window=1)
    for run_id, (state, position) in data.draw(st.permutations(sorted(kept.items()))):
        if run_id in fold.open:  # what has ended, its role has deleted
            successor.restore(run_id, state, 0, None, position)
    for offset in range(fold.fold_from(), len(stream)):
        successor.apply(stream[offset], offset)
    mine = {run_id: run.state for run_id, run in successor.open.items()}
    assert mine == {run_id: run.state for run_id, run in fold.open.items()}, (stream, fold.fold_from())
    for run_id, run in successor.open.items():
        if run.dag is not None and run.dag.run is run:
            theirs = fold.open[run_id].dag
            assert theirs is not None
            assert (set(run.dag.open), run.dag.running) == (set(theirs.open), theirs.running)


def test_the_drafts_tell_long_stories() -> None:
    """That the properties above are about something: all verdicts about Dags are reached."""
    reasons: Counter[Ignored] = Counter()
    ends: Counter[RunStatus] = Counter()

    dice = Random(7)
    for _ in range(300):
        fold: Fold[object] = Fold()
        drafts = [
            Draft(dice.choice([*NODES, *NODES, *IDS]), None, dice.randint(0, 3), dice.random() < 0.5)
            for _ in range(dice.randint(1, 40))
        ]
        drafts += [draft._replace(kind=dice.choice([None, *KINDS])) for draft in drafts]
        for offset, draft in enumerate([Draft(DAG_RUN, EventKind.PENDING, 0, honest=True), *drafts]):
            reasons[fold.apply(written(draft, fold.state(draft.run_id), offset), offset).reason] += 1
        state = fold.state(DAG_RUN)
        assert state is not None
        ends[state.status] += 1
    assert {
        Ignored.NO_DAG_RUN,
        Ignored.DAG_RUN_OVER,
        Ignored.NODES_OPEN,
        Ignored.NOT_OF_NODES,
        Ignored.NOT_OF_DAG_RUNS,
    } <= set(reasons)
    assert {RunStatus.RUNNING, RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED} <= set(ends)
