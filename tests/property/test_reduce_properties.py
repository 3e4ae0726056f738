"""Properties of the reducer: whatever a log holds, repeats change nothing and an end is an end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.model.events import FINAL, EventKind, Outcome, RunEvent, RunStatus
from waterclock.model.reduce import RunState, Verdict, reduce

JOB = "acme:nightly"
RUN = "acme:nightly@20261121T090000Z"
OF_WORKERS = {
    EventKind.STARTED,
    EventKind.ATTEMPT_SUCCEEDED,
    EventKind.ATTEMPT_FAILED,
    EventKind.ATTEMPT_TIMED_OUT,
    EventKind.ATTEMPT_CANCELLED,
    EventKind.ATTEMPT_LOST,
}
KINDS = st.one_of(
    st.sampled_from(list(EventKind)),
    # The common ones more often, so that most streams get somewhere.
    st.sampled_from([EventKind.PENDING, EventKind.STARTED, EventKind.ATTEMPT_FAILED, EventKind.RETRYING]),
)
DRAFTS = st.lists(
    st.tuples(KINDS, st.integers(0, 3), st.sampled_from(["w-1", "w-2"]), st.booleans()), min_size=1, max_size=25
)


def make_stream(drafts: list[tuple[EventKind, int, str, bool]]) -> list[RunEvent]:
    """Events whose outcomes mostly name a token that some STARTED before them really got."""
    stream: list[RunEvent] = []
    started_at = 0
    for offset, (kind, attempt, worker, honest) in enumerate(drafts):
        token = started_at if honest else offset
        stream.append(RunEvent(kind, JOB, RUN, at=offset, attempt=attempt, worker=worker, token=token))
        if kind is EventKind.STARTED:
            started_at = offset
    return stream


def fold(stream: list[RunEvent]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    state: RunState | None = None
    for offset, event in enumerate(stream):
        verdict = reduce(state, event, offset)
        verdicts.append(verdict)
        state = verdict.state
    return verdicts


@given(DRAFTS, st.data())
@settings(max_examples=400)
def test_a_repeat_of_an_accepted_event_changes_nothing(
    drafts: list[tuple[EventKind, int, str, bool]], data: st.DataObject
) -> None:
    stream = make_stream(drafts)
    verdicts = fold(stream)
    accepted = [at for at, verdict in enumerate(verdicts) if verdict.accepted and verdict.state is not None]
    if not accepted:
        return
    repeated = data.draw(st.sampled_from(accepted))
    later = data.draw(st.integers(repeated, len(stream) - 1))
    state = verdicts[later].state
    again = reduce(state, stream[repeated], len(stream) + 1)
    assert again.state == state
    if stream[repeated].kind not in (EventKind.REVISED, EventKind.ANSWERED, EventKind.BACKFILL):  # these touch no run
        assert not again.accepted


@given(DRAFTS)
@settings(max_examples=400)
def test_a_replay_of_the_whole_stream_ends_where_it_ended(drafts: list[tuple[EventKind, int, str, bool]]) -> None:
    stream = [each for each, verdict in zip(make_stream(drafts), fold(make_stream(drafts)), strict=True)
              if verdict.accepted]  # fmt: skip
    once = fold(stream)
    twice = fold(stream + stream)
    if once:
        assert twice[-1].state == once[-1].state


@given(DRAFTS)
@settings(max_examples=400)
def test_a_final_status_never_changes(drafts: list[tuple[EventKind, int, str, bool]]) -> None:
    end: RunState | None = None
    for verdict in fold(make_stream(drafts)):
        if end is not None:
            assert verdict.state == end
        elif verdict.state is not None and verdict.state.status in FINAL:
            end = verdict.state


@given(DRAFTS)
@settings(max_examples=400)
def test_an_ignored_event_leaves_the_state_alone_and_says_why(
    drafts: list[tuple[EventKind, int, str, bool]],
) -> None:
    state: RunState | None = None
    for verdict in fold(make_stream(drafts)):
        assert verdict.accepted == (not verdict.reason)
        if not verdict.accepted:
            assert verdict.state == state
        state = verdict.state


@given(DRAFTS)
@settings(max_examples=400)
def test_attempts_are_contiguous_and_each_has_one_outcome(drafts: list[tuple[EventKind, int, str, bool]]) -> None:
    stream = make_stream(drafts)
    starts, outcomes = [], []
    for event, verdict in zip(stream, fold(stream), strict=True):
        if verdict.accepted and event.kind is EventKind.STARTED:
            starts.append(event.attempt)
        elif verdict.accepted and event.kind in OF_WORKERS:
            outcomes.append(event.attempt)
            assert verdict.state is not None
            assert verdict.state.outcome is not Outcome.NONE
    assert starts == list(range(1, len(starts) + 1))
    assert outcomes == starts[: len(outcomes)]


@given(DRAFTS)
@settings(max_examples=200)
def test_a_run_is_running_exactly_while_an_attempt_is_open_or_undecided(
    drafts: list[tuple[EventKind, int, str, bool]],
) -> None:
    for verdict in fold(make_stream(drafts)):
        state = verdict.state
        if state is not None:
            assert (state.status is RunStatus.RUNNING) == (state.attempt_open or state.undecided)
            assert not (state.held and state.status is not RunStatus.PENDING)


@given(DRAFTS)
@settings(max_examples=50)
def test_the_writers_clock_decides_nothing(drafts: list[tuple[EventKind, int, str, bool]]) -> None:
    stream = make_stream(drafts)
    skewed = [event._replace(at=-event.at) for event in stream]
    assert fold(stream) == fold(skewed)
