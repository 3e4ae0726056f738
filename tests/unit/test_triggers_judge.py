"""The judge of what ends start: a good history passes, and each way in which it can be bad is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import triggers
from tests.unit.dispatcher_world import NAMES, World, raw
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag_events import DagStart
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import make_run_id, ordinal
from waterclock.model.job import NEVER, CommandKind, JobSpec, Tier
from waterclock.model.triggers import RunEnds, Triggers
from waterclock.wire.messages import event_message

REPORT, LOAD, OTHER = "acme:report", "acme:load", "acme:other"
WHO = {"worker": "w-1", "incarnation": 3}
ON_LOAD = JobSpec("demo.noop", NEVER, on=Triggers((RunEnds("load"),)))


class History(World):
    """A dispatcher that obeys, and a hand that writes what workers and routers would."""

    def __init__(self, *, is_routed: bool = True) -> None:
        super().__init__(partitions=1)
        self.hand = self.outside.appender()
        self.ends: dict[str, tuple[str, int]] = {}
        self.waits(REPORT)
        if is_routed:
            self.ended(OTHER, EventKind.RUN_FAILED)

    def waits(self, job_id: str, known_after_us: int = triggers.COMMITTED_WITHIN_US) -> None:
        """A job that waits for the load, and so much time, in which everybody may read that it does."""
        self.command(CommandKind.CREATE, job_id, ON_LOAD)
        self.run(1)
        self.clock.advance(known_after_us)

    def event(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: Any) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self.clock.now(), attempt)._replace(**parts)
        offset = self.hand.append(event_message(NAMES, event)).offset
        assert offset is not None
        return offset

    def begun(self, job_id: str, hops: int = 0) -> tuple[str, int]:
        """A run that is under way, and its token."""
        self.clock.advance(1_000_000)
        fire_at = self.clock.now()
        run_id = make_run_id(job_id, fire_at)
        self.event(EventKind.PENDING, run_id, detail=Pending(1, fire_at, None, Tier.HIGH, Origin.SCHEDULE, hops=hops))
        return run_id, ordinal(1, self.event(EventKind.STARTED, run_id, 1, detail=Started("t", 0, 0), **WHO))

    def end(self, run_id: str, token: int, verdict: EventKind | None = None) -> None:
        now = self.clock.now()
        kind = EventKind.ATTEMPT_FAILED if verdict else EventKind.ATTEMPT_SUCCEEDED
        self.event(kind, run_id, 1, token=token, detail=Ended(now, "", ""), **WHO)
        if verdict:
            self.event(verdict, run_id, 1, reason="failed")
        self.ends[run_id] = "failed" if verdict else "succeeded", now

    def ended(self, job_id: str, verdict: EventKind | None = None, hops: int = 0) -> str:
        """A run that has ended: well, or by this verdict."""
        run_id, token = self.begun(job_id, hops)
        self.end(run_id, token, verdict)
        return run_id

    def told(self, source: str, job_id: str = REPORT, hops: int = 1, **more: Any) -> None:
        ended, ended_at = self.ends.get(source, ("", 0))
        more = {"command_id": f"{source}/succeeded", "ended": ended, "ended_at": ended_at} | more
        self.command(CommandKind.TRIGGER, job_id, triggered_by=source, hops=hops, **more)
        self.run(1)

    def judged(self) -> list[str]:
        topics = {
            topic: [raw(record) for record in self.records(topic)] for topic in (NAMES.commands, NAMES.run_events)
        }
        work = [raw(record) for record in self.records(NAMES.runs(Tier.MEDIUM))]
        complaints, _ = triggers.check(topics[NAMES.commands], topics[NAMES.run_events], work)
        return complaints


@pytest.fixture
def history() -> History:
    return History()


def test_a_good_history_passes(history: History) -> None:
    source = history.ended(LOAD)
    history.told(source)
    history.told(source)
    history.ended(OTHER)
    assert history.judged() == []


def test_an_end_that_started_nothing_is_seen(history: History) -> None:
    history.told(history.ended(LOAD))
    source = history.ended(LOAD)
    assert history.judged() == [f"{source} ended SUCCEEDED, and did not start {REPORT}"]


def test_an_end_that_started_two_runs_is_seen(history: History) -> None:
    source = history.ended(LOAD)
    history.told(source)
    history.told(source, command_id="another")
    assert [each for each in history.judged() if f"{source} was to start one run of {REPORT}, and started" in each]


def test_a_start_by_what_has_not_ended_is_seen(history: History) -> None:
    source = make_run_id(LOAD, history.clock.now())
    history.told(source)
    assert f"{REPORT} was started by {source}, which has not ended" in history.judged()


def test_a_start_by_what_nobody_waits_for_is_seen(history: History) -> None:
    failed = history.ended(LOAD, EventKind.RUN_FAILED)
    history.told(failed)
    assert history.judged() == [f"{REPORT} was started by {failed}, and does not wait for that"]


def test_a_start_by_an_end_before_the_condition_stood_is_seen() -> None:
    history = History()
    source = history.ended(LOAD)
    history.command(CommandKind.CREATE, OTHER, ON_LOAD)
    history.run(1)
    history.told(source)
    history.told(source, OTHER)
    assert history.judged() == [f"{OTHER} was started by {source}, and does not wait for that"]


def test_a_run_that_counts_wrongly_how_many_stood_before_it_is_seen(history: History) -> None:
    source = history.ended(LOAD, hops=3)
    history.told(source, hops=3)
    assert f"{REPORT} was started by {source} as number 3, after number 3" in history.judged()


def test_a_chain_that_is_cut_where_it_must_be_is_good(history: History) -> None:
    source = history.ended(LOAD, hops=16)
    history.told(source, hops=17)
    assert [each for each in history.judged() if "started" in each] == []


def test_a_dag_run_that_expired_says_nothing_of_a_router() -> None:
    """The DAG engine has ended it; a first router that begins behind it starts nothing."""
    history = History(is_routed=False)
    run_id = make_run_id("acme:dag", history.clock.now())
    dag = Pending(1, history.clock.now(), None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
    history.event(EventKind.PENDING, run_id, detail=dag)
    history.event(EventKind.RUN_EXPIRED, run_id, reason="expired")
    history.ended(LOAD)
    assert history.judged() == []


def test_nothing_is_asked_of_ends_before_the_first_router_or_of_jobs_that_changed_their_mind(history: History) -> None:
    history.ended(LOAD)
    history.command(CommandKind.DELETE, REPORT)
    history.run(1)
    assert history.judged() == []


def test_a_start_that_says_otherwise_how_a_run_ended_is_seen(history: History) -> None:
    source = history.ended(LOAD)
    history.told(source, ended="failed")
    assert [each for each in history.judged() if f"{REPORT} was started by {source}, which ended failed at" in each]


def test_a_start_before_the_end_is_seen(history: History) -> None:
    source, token = history.begun(LOAD)
    history.told(source, ended="succeeded", ended_at=history.clock.now() + 1_000_000)
    history.end(source, token)
    assert f"{REPORT} was started by {source}, before that had ended" in history.judged()


def test_a_start_that_brings_a_payload_is_seen(history: History) -> None:
    source = history.ended(LOAD)
    history.told(source, payload=b"7")
    assert history.judged() == [f"{REPORT} was started by {source}, with a payload"]


def test_a_run_that_names_what_has_not_started_it_is_seen(history: History) -> None:
    run_id, now = make_run_id("acme:dag", history.clock.now()), history.clock.now()
    detail = Pending(1, now, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart(), triggered_by="acme:load@x", hops=1)
    history.event(EventKind.PENDING, run_id, detail=detail)
    assert history.judged() == [f"{run_id}: its PENDING says acme:load@x as number 1, it was nothing"]


def test_a_run_that_forgets_what_started_it_after_it_was_held_is_seen(history: History) -> None:
    history.command(CommandKind.UPDATE, REPORT, replace(ON_LOAD, concurrency=Concurrency(Overlap.BUFFER_ALL)))
    history.run(1)
    history.told(history.ended(LOAD))
    source = history.ended(LOAD)
    history.told(source)
    assert history.judged() == []
    (held,) = history.events(EventKind.HELD)
    assert isinstance(held.detail, Pending)
    history.event(EventKind.PENDING, held.run_id, detail=held.detail._replace(triggered_by="", hops=0))
    assert history.judged() == [f"{held.run_id}: its PENDING says nothing, it was {source} as number 1"]


def test_an_end_before_everybody_could_read_that_a_job_waits_starts_nothing(history: History) -> None:
    history.waits(OTHER, known_after_us=triggers.COMMITTED_WITHIN_US - 2_000_000)
    history.told(history.ended(LOAD))
    assert history.judged() == []
    history.clock.advance(1_000_000)
    source = history.ended(LOAD)
    history.told(source)
    assert history.judged() == [f"{source} ended SUCCEEDED, and did not start {OTHER}"]


def test_an_end_that_was_answered_while_a_job_waited_for_it_had_to_start_it(history: History) -> None:
    history.waits(OTHER)
    source = history.ended(LOAD)
    history.told(source)
    history.command(CommandKind.DELETE, OTHER)
    history.run(1)
    assert history.judged() == [f"{source} ended SUCCEEDED, and did not start {OTHER}"]


def test_an_end_that_may_have_been_answered_after_a_job_waited_for_it_starts_nothing(history: History) -> None:
    history.waits(OTHER)
    source = history.ended(LOAD)
    history.command(CommandKind.DELETE, OTHER)
    history.run(1)
    history.told(source)
    assert history.judged() == []


def test_what_an_end_has_started_says_that_there_is_a_router() -> None:
    history = History(is_routed=False)
    history.told(history.ended(LOAD))
    source = history.ended(LOAD)
    assert history.judged() == [f"{source} ended SUCCEEDED, and did not start {REPORT}"]
