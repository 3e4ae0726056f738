"""What the end of a DagRun starts, however it comes: once, by its own status, and nothing by the ends of its nodes."""

from __future__ import annotations

from functools import partial

import pytest
from waterclock.retry_router import loop as router_loop
from waterclock.retry_router.loop import RetryRouter

from tests.unit.dag_chain_world import FAILED, LATER, LOAD, NIGHTLY, NODES, OK, REPORT, Chain, dag
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag import Node
from waterclock.model.events import EventKind, Skipped
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind
from waterclock.model.triggers import Ended, RunEnds
from waterclock.transact import Rounds

ON_SUCCESS, ON_FAILURE = "acme:on-success", "acme:on-failure"
ITEMS = "acme:items"
MINUTE_US = 60 * US_PER_S
WHATEVER = pytest.mark.parametrize(
    "last", [OK, FAILED, EventKind.ATTEMPT_CANCELLED, EventKind.ATTEMPT_TIMED_OUT, EventKind.ATTEMPT_LOST]
)
"""How the attempt ends that a DagRun waits for which is to end."""


def waiting(chain: Chain, **limits: object) -> Chain:
    """The Dag, started by the end of another job or by hand; a job for each of its ends."""
    chain.create(LOAD, LATER)
    chain.create(NIGHTLY, dag(RunEnds("load"), **limits))  # type: ignore[arg-type]
    chain.waits(ON_SUCCESS, RunEnds("nightly"))
    chain.waits(ON_FAILURE, RunEnds("nightly", Ended.FAILED))
    chain.waits(REPORT, RunEnds("nightly", Ended.ANY))
    return chain


@pytest.fixture
def world() -> Chain:
    return waiting(Chain(), timeout_us=10 * MINUTE_US)


@pytest.fixture(params=["run-events", "state-topic"])
def handed_on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """One whose next router knows open DagRuns by their events, or by what the one before has kept of them."""
    if request.param == "run-events":
        return Chain()
    monkeypatch.setattr(router_loop, "Fold", partial(Fold, window=1))  # else all of it is read again anyhow
    return Chain(kept_behind=0)


def cancelled(*dag_run_ids: str) -> list[tuple[str, str, str]]:
    """All that is told of the cancel of these."""
    return sorted((REPORT, each, "cancelled") for each in dag_run_ids)


def failed(*dag_run_ids: str) -> list[tuple[str, str, str]]:
    """All that is told of the failure of these."""
    return sorted((job_id, each, "failed") for job_id in (ON_FAILURE, REPORT) for each in dag_run_ids)


def stays(world: Chain, said: list[tuple[str, str, str]]) -> None:
    """Assert that this was told, and nothing else ever is, whoever comes next; and that each of it made its run."""
    for _ in range(2):
        world.run(3)
        world.crash_router()
    world.run(3)
    who = (ON_SUCCESS, ON_FAILURE, REPORT)
    made = sorted((job, each.detail.triggered_by) for job in who for each in world.made(job))
    assert [each for each in world.starts() if each[0] in who] == said
    assert made == [(job, source) for job, source, _ in said]
    assert world.judged() == []


def turned(router: RetryRouter) -> None:
    """The router alone, until it has read all there is."""
    for _ in range(10):
        router.step()


# Cancelled -----------------------------------------------------------------------------------------------------------


def test_a_dag_run_that_is_cancelled_while_no_node_runs_has_ended_at_once(world: Chain) -> None:
    run_id = world.triggered(NIGHTLY)
    world.cancel(run_id)
    assert world.starts() == cancelled(run_id)
    stays(world, cancelled(run_id))


@WHATEVER
def test_a_dag_run_that_is_cancelled_ends_with_the_last_attempt_however_that_ends(
    world: Chain, last: EventKind
) -> None:
    run_id = world.triggered(NIGHTLY)
    tokens = [world.claim(f"{run_id}/{node}") for node in "ab"]
    world.cancel(run_id)
    world.end(f"{run_id}/a", tokens[0])
    assert world.starts() == [], "an attempt is open"
    world.end(f"{run_id}/b", tokens[1], last)
    assert world.starts() == cancelled(run_id)
    stays(world, cancelled(run_id))


def test_a_router_that_takes_over_between_a_cancel_and_the_end_tells_it_once(handed_on: Chain) -> None:
    world = waiting(handed_on)
    world.works(world.triggered(LOAD))
    run_id = world.made(NIGHTLY)[0].run_id
    token = world.claim(f"{run_id}/a")
    world.run(1)
    world.crash_router()
    world.run(1)
    world.cancel(run_id)
    world.crash_router()
    world.run(1)
    assert world.starts()[1:] == [], "an attempt is open"
    world.end(f"{run_id}/a", token)
    assert world.starts()[1:] == cancelled(run_id)
    assert world.causes(REPORT) == [(run_id, 2)], "it knows what stood before its DagRun"
    world.crash_router()
    world.run(3)
    assert (len(world.starts()), world.judged()) == (2, [])


def test_the_end_of_a_dag_run_whose_round_never_landed_is_told_by_a_successor(
    world: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.triggered(NIGHTLY)
    token = world.claim(f"{run_id}/a")
    world.cancel(run_id)
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        world.tell(OK, f"{run_id}/a", 1, worker="w", incarnation=3, token=token)
        with pytest.raises(KeyboardInterrupt):
            turned(world.router)
    assert world.starts() == []
    world.crash_router()
    world.run(1)
    assert world.starts() == cancelled(run_id)
    stays(world, cancelled(run_id))


def test_a_dag_run_that_is_cancelled_before_it_went_out_ends_once(world: Chain) -> None:
    world.command(CommandKind.UPDATE, NIGHTLY, dag(RunEnds("load"), concurrency=Concurrency(Overlap.BUFFER_ALL)))
    first = world.triggered(NIGHTLY)
    world.command(CommandKind.TRIGGER, NIGHTLY)
    world.run(0.5)
    ((held, _),) = world.made(NIGHTLY, EventKind.HELD)
    world.cancel(held)
    assert world.starts() == cancelled(held)
    world.cancel(first)
    stays(world, cancelled(first, held))


# Over its time -------------------------------------------------------------------------------------------------------


def test_a_dag_run_over_its_time_while_no_node_runs_has_failed_at_once(world: Chain) -> None:
    run_id = world.triggered(NIGHTLY)
    world.run(590, step_s=5)
    assert world.starts() == []
    world.run(20)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]
    assert world.starts() == failed(run_id)
    stays(world, failed(run_id))


@WHATEVER
def test_a_dag_run_over_its_time_fails_with_the_last_attempt_however_that_ends(world: Chain, last: EventKind) -> None:
    run_id = world.triggered(NIGHTLY)
    world.works(f"{run_id}/a")
    token = world.claim(f"{run_id}/b")
    world.run(620, step_s=5)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]
    assert world.starts() == [], "an attempt is open"
    world.end(f"{run_id}/b", token, last)
    assert world.starts() == failed(run_id)
    stays(world, failed(run_id))


def test_a_router_that_takes_over_between_an_expiry_and_the_end_tells_it_once(handed_on: Chain) -> None:
    world = waiting(handed_on, timeout_us=MINUTE_US)
    world.works(world.triggered(LOAD))
    run_id = world.made(NIGHTLY)[0].run_id
    token = world.claim(f"{run_id}/a")
    world.run(40, step_s=2)
    world.crash_router()
    world.run(40, step_s=2)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]
    world.crash_router()
    world.run(1)
    assert world.starts()[1:] == [], "an attempt is open"
    world.end(f"{run_id}/a", token)
    assert world.starts()[1:] == failed(run_id)
    assert (world.causes(REPORT), world.causes(ON_FAILURE)) == ([(run_id, 2)], [(run_id, 2)])
    world.crash_router()
    world.run(3)
    assert (len(world.starts()), world.judged()) == (3, [])


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_dag_run_that_is_cancelled_and_over_its_time_ends_once_by_what_came_first(
    world: Chain, cancel_first: bool
) -> None:
    run_id = world.triggered(NIGHTLY)
    token = world.claim(f"{run_id}/a")
    kinds = (EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED)
    for kind in kinds if cancel_first else reversed(kinds):
        world.tell(kind, run_id)
        world.run(0.5)
    assert world.starts() == []
    world.end(f"{run_id}/a", token)
    stays(world, cancelled(run_id) if cancel_first else failed(run_id))


# By its nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "how"), [(OK, "succeeded"), (FAILED, "failed")])
def test_the_ends_of_nodes_start_nothing_and_that_of_their_dag_run_does_once(
    world: Chain, last: EventKind, how: str
) -> None:
    run_id = world.triggered(NIGHTLY)
    world.works(f"{run_id}/a", f"{run_id}/b")
    assert world.starts() == []
    world.works(f"{run_id}/c", kind=last)
    said = failed(run_id) if how == "failed" else sorted((job, run_id, how) for job in (ON_SUCCESS, REPORT))
    assert world.starts() == said
    stays(world, said)


def test_a_node_that_is_cancelled_or_given_up_is_no_end_of_its_dag_run(world: Chain) -> None:
    run_id = world.triggered(NIGHTLY)
    world.cancel(f"{run_id}/a")
    assert world.starts() == [], "another node can still run"
    world.works(f"{run_id}/b", kind=FAILED)
    assert world.starts() == failed(run_id)
    stays(world, failed(run_id))


def test_a_node_over_its_own_time_is_no_end_of_its_dag_run(world: Chain) -> None:
    in_haste = Node("b", "h", policy=FailurePolicy(queue_timeout_us=MINUTE_US))
    world.command(CommandKind.UPDATE, NIGHTLY, dag(RunEnds("load"), nodes=(NODES[0], in_haste, NODES[2])))
    run_id = world.triggered(NIGHTLY)
    world.run(70, step_s=1)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [f"{run_id}/b"]
    assert world.starts() == []
    world.works(f"{run_id}/a")
    stays(world, failed(run_id))


def test_what_comes_after_the_end_of_a_dag_run_is_no_other_end(world: Chain) -> None:
    run_id = world.triggered(NIGHTLY)
    token = world.claim(f"{run_id}/a")
    world.cancel(run_id)
    world.end(f"{run_id}/a", token)
    for kind in (EventKind.DAG_FAILED, EventKind.DAG_SUCCEEDED, EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED):
        world.tell(kind, run_id)
    world.end(f"{run_id}/a", token)
    world.end(f"{run_id}/b", token)
    stays(world, cancelled(run_id))


def test_a_rerun_that_ends_starts_what_waits_and_begins_to_count_anew(world: Chain) -> None:
    world.works(world.triggered(LOAD))
    ((first, detail),) = world.made(NIGHTLY)
    world.cancel(first)
    world.command(CommandKind.RERUN, NIGHTLY, run_id=first, to_revision=detail.revision)
    world.run(1)
    again = world.made(NIGHTLY)[-1].run_id
    assert again != first
    world.works_off(again)
    assert world.causes(REPORT) == [(first, 2), (again, 1)]
    stays(world, sorted([*cancelled(first), (ON_SUCCESS, again, "succeeded"), (REPORT, again, "succeeded")]))


# Together with others ------------------------------------------------------------------------------------------------


def with_a_window(how: Ended = Ended.SUCCEEDED) -> Chain:
    """A job that waits for the Dag and another job together."""
    world = Chain()
    world.create(ITEMS, LATER)
    world.create(NIGHTLY, dag(timeout_us=10 * MINUTE_US))
    both = RunEnds("nightly", how), RunEnds("items")
    world.waits(REPORT, *both, within_us=MINUTE_US, wants_all=True)
    return world


def lapsed(world: Chain) -> list[tuple[str, str]]:
    found = ((each.reason, each.detail) for each in world.events(EventKind.SKIPPED))
    return [(reason, detail.cap) for reason, detail in found if isinstance(detail, Skipped)]


@pytest.mark.parametrize("dag_first", [True, False])
def test_a_window_for_a_dag_and_a_job_makes_one_run_once_both_have_ended(dag_first: bool) -> None:
    world = with_a_window()
    dag_run, items = world.triggered(NIGHTLY), world.triggered(ITEMS)
    world.works(f"{dag_run}/a", f"{dag_run}/b")
    if dag_first:
        world.works(f"{dag_run}/c")
        assert world.made(REPORT) == []
        world.works(items)
    else:
        world.works(items)
        assert world.made(REPORT) == [], "its nodes are no ends"
        world.works(f"{dag_run}/c")
    assert world.causes(REPORT) == [(items if dag_first else dag_run, 1)]
    world.run(70, step_s=1)
    assert (len(world.made(REPORT)), lapsed(world), world.judged()) == (1, [], [])


@pytest.mark.parametrize(("how", "count"), [(Ended.ANY, 1), (Ended.SUCCEEDED, 0)])
def test_a_window_counts_a_dag_run_that_is_cancelled_while_a_node_runs_where_any_end_counts(
    how: Ended, count: int
) -> None:
    world = with_a_window(how)
    dag_run = world.triggered(NIGHTLY)
    token = world.claim(f"{dag_run}/a")
    world.works(world.triggered(ITEMS))
    world.cancel(dag_run)
    assert world.made(REPORT) == []
    world.end(f"{dag_run}/a", token)
    assert world.causes(REPORT) == [(dag_run, 1)] * count
    world.run(70, step_s=1)
    assert lapsed(world) == [("window", "nightly")] * (1 - count)
    assert world.judged() == []


def test_a_window_in_which_the_dag_is_over_its_time_counts_it_as_failed() -> None:
    world = with_a_window(Ended.FAILED)
    dag_run = world.triggered(NIGHTLY)
    token = world.claim(f"{dag_run}/a")
    world.run(580, step_s=5)
    world.works(world.triggered(ITEMS))
    world.run(30, step_s=5)
    assert world.made(REPORT) == []
    world.end(f"{dag_run}/a", token)
    assert world.causes(REPORT) == [(dag_run, 1)]
    assert (lapsed(world), world.judged()) == ([], [])


def test_a_dag_that_waits_for_several_starts_once_and_half_a_window_goes_on_with_its_next_owner() -> None:
    world = Chain()
    for job_id, spec in ((LOAD, LATER), (ITEMS, dag())):
        world.create(job_id, spec)
    world.create(NIGHTLY, dag(RunEnds("items"), RunEnds("load"), within_us=MINUTE_US, wants_all=True))
    source = world.triggered(ITEMS)
    world.works_off(source)
    world.crash()
    world.crash_router()
    world.run(10, step_s=0.5)
    assert world.made(NIGHTLY) == []
    last = world.triggered(LOAD)
    world.works(last)
    ((run_id, detail),) = world.made(NIGHTLY)
    assert (detail.triggered_by, detail.hops, detail.dag is not None) == (last, 1, True)
    world.works_off(run_id)
    assert run_id in {each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)}
    world.run(70, step_s=1)
    assert (len(world.made(NIGHTLY)), lapsed(world), world.judged()) == (1, [], [])
