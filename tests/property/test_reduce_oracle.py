"""Two reducers, written apart from each other, agree on any log: the product's, and the one the checkers judge by."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import runs as judge
from waterclock.model.events import Ended, EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.ids import ordinal
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState, reduce
from waterclock.wire.codec import encode_event

JOB = "acme:nightly"
RUN = "acme:nightly@20261121T090000Z"
GENERATION = 1
NOT_BUILT = {EventKind.UNKNOWN, EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED, EventKind.NODE_SKIPPED}
COMMON = [
    EventKind.PENDING,
    EventKind.STARTED,
    EventKind.ATTEMPT_FAILED,
    EventKind.ATTEMPT_LOST,
    EventKind.RETRYING,
    EventKind.CANCEL_REQUESTED,
]
DRAFTS = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(sorted(set(EventKind) - NOT_BUILT)),
            st.sampled_from(COMMON),
            # What would come next if all went on as it should, so that long stories are told too.
            st.none(),
        ),
        st.integers(0, 5),
        st.sampled_from(["w-1", "w-2"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


def next_kind(state: RunState | None) -> EventKind:
    """What carries a run on."""
    if state is None or state.held:
        return EventKind.PENDING
    if state.attempt_open:
        return EventKind.ATTEMPT_LOST if state.attempt % 2 else EventKind.ATTEMPT_FAILED
    return EventKind.RETRYING if state.undecided else EventKind.STARTED


def written(draft: tuple[EventKind | None, int, str, bool], state: RunState | None, offset: int) -> RunEvent:
    """The event of a draft: ``honest`` ones name attempt and owner as they are."""
    kind, attempt, worker, honest = draft
    kind = next_kind(state) if kind is None else kind
    token = offset
    if honest and state is not None:
        token = state.token
        attempt = state.attempt + (kind in (EventKind.STARTED, EventKind.RETRYING))
        worker = worker if kind is EventKind.STARTED else state.worker
    event = RunEvent(kind, JOB, RUN, offset, attempt, worker, 3, token)
    if kind is EventKind.SKIPPED:
        return event._replace(detail=Skipped(1, 5, 5, 1, Tier.HIGH, 5))
    if kind is EventKind.PENDING:  # the one status that gives way gives way to a backfill's alone
        origin = Origin.BACKFILL if honest else Origin.SCHEDULE
        return event._replace(detail=Pending(1, 5, None, Tier.LOW, origin))
    return event._replace(detail=Ended(1)) if kind.startswith("ATTEMPT_") else event


@given(DRAFTS)
@settings(max_examples=500, deadline=None)
def test_both_reducers_come_to_the_same_run_after_every_event(
    drafts: list[tuple[EventKind | None, int, str, bool]],
) -> None:
    state: RunState | None = None
    events, accepted = [], []
    for offset, draft in enumerate(drafts):
        event = written(draft, state, offset)
        verdict = reduce(state, event, ordinal(GENERATION, offset))
        state = verdict.state
        events.append({"partition": 0, "offset": offset, "timestamp_us": 0, "value": encode_event(event)})
        if event.kind not in (EventKind.REVISED, EventKind.ANSWERED, EventKind.BACKFILL):
            accepted.append((verdict.accepted, state))
    told = judge.tell(events)
    assert [each.after is not None for each in told] == [was_accepted for was_accepted, _ in accepted]
    for each, (_, meant) in zip(told, accepted, strict=True):
        run = each.after or each.before
        assert (run is None) == (meant is None)
        if run is not None and meant is not None:
            said = (run["status"], run["attempt"], run["outcome"], run["held"], run["worker"])
            assert said == (RunStatus(meant.status).name, meant.attempt, Outcome(meant.outcome).name, meant.held,
                            meant.worker)  # fmt: skip
            if meant.attempt:
                assert ordinal(GENERATION, run["token"]) == meant.token


def test_a_second_outcome_of_one_attempt_is_told() -> None:
    events = [RunEvent(EventKind.PENDING, JOB, RUN, 0), RunEvent(EventKind.STARTED, JOB, RUN, 0, 1, "w-1")]
    lost = RunEvent(EventKind.ATTEMPT_LOST, JOB, RUN, 0, 1, "w-1", token=1, detail=Ended(1))
    records = [
        {"partition": 0, "offset": offset, "timestamp_us": 0, "value": encode_event(event)}
        for offset, event in enumerate([*events, lost, lost])
    ]
    runs, complaints, counts = judge.follow(records)
    assert runs[RUN]["outcome"] == "LOST"
    assert complaints == [f"{RUN} attempt 1: 2 times ATTEMPT_LOST"]
    assert counts == Counter(accepted=3, ignored=1)
