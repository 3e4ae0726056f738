"""The judges of orders about runs, and of what a run says that it does again."""

from __future__ import annotations

from tests.oracle import makings, orders, runs
from tests.unit.test_told_judges import JOB, NAMES, OTHER, RUN, Log
from waterclock.model.dag_events import DagStart
from waterclock.model.events import EventKind, Origin, Pending, RunEvent
from waterclock.model.job import CommandKind, Tier
from waterclock.wire import messages


def test_a_pause_of_a_dagrun_is_passed_on_once() -> None:
    log = Log()
    at = log.command(CommandKind.PAUSE_RUN, run_id=RUN)
    assert orders.check(log.commands, log.events, [])[0] == [f"{RUN}: 1 times PAUSE_RUN was sent, 0 were passed on"]
    log.say(RunEvent(EventKind.DAG_PAUSED, JOB, RUN, at))
    assert orders.check(log.commands, log.events, [])[0] == []
    log.say(RunEvent(EventKind.DAG_RESUMED, JOB, RUN, at))
    assert orders.check(log.commands, log.events, [])[0] == [f"{RUN}: 0 times RESUME_RUN was sent, 1 were passed on"]


def test_a_run_says_which_one_it_does_again_and_from_where() -> None:
    making = makings.Making(
        "REDRIVE", 1, "LOW", "default", "", b"", {}, False, {}, dag="{}", again_of=RUN, begins=("b",)
    )

    def wrong(detail: Pending) -> list[str]:
        event = RunEvent(EventKind.PENDING, JOB, OTHER, 0, detail=detail)
        told = runs.decode(messages.event_message(NAMES, event).value)[1]["pending"]
        return [*makings._wrong_pending(told, making, 0)]

    right = Pending(1, 0, None, Tier.LOW, Origin.REDRIVE, handler="dag", linked_run=RUN, dag=DagStart(None, ("b",)))
    assert wrong(right) == []
    assert wrong(right._replace(linked_run="")) == [f"says linked_run '', meant was {RUN!r}"]
    assert wrong(right._replace(dag=DagStart(None, ()))) == ["says that it begins with (), meant was ('b',)"]
