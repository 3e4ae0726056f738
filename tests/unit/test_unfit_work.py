"""Work that decodes and cannot be run, or answered for, ends no process: it is refused where somebody takes it."""

from __future__ import annotations

import pytest

from tests.unit import dispatcher_world, router_world
from tests.unit.test_dispatcher_keys import one_shard, verdicts
from tests.unit.test_dispatcher_run_orders import RUN, defer, work
from waterclock.log.port import Outgoing
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, WorkRecord
from waterclock.model.failure_policy import ClassRule, FailurePolicy, policy_to_json
from waterclock.model.job import CommandKind, Tier
from waterclock.wire.codec import encode_work
from waterclock.wire.fit_work import fit_work

from .worker_world import START, World

POLICIES = (
    "{",
    "[]",
    "7",
    '{"max_attempts":"x"}',
    '{"run_timeout_us":"x"}',
    '{"attempt_timeout_us":1.5}',
    '{"delays_us":[]}',
    '{"max_delay_us":9223372036854775807}',
    '{"never":3}',
    '{"by_class":3}',
    '{"by_class":[{"error_class":1}]}',
    '{"by_class":[{}]}',
)


def _of_a_worker(run_id: str = "acme:job@20261121T090000Z", policy: str = "") -> WorkRecord:
    return WorkRecord(run_id, START, START, 1, "acme:job", 1, Tier.MEDIUM, "default", "noop", b"", policy=policy)


def test_a_policy_that_was_checked_is_fit_and_one_of_a_later_release_too() -> None:
    policy = policy_to_json(FailurePolicy(9, never=("gone",), by_class=(ClassRule("lost", 2, (5,)),)))
    for each in (policy, '{"of_a_later_release":[1],"backoff":"fibonacci"}', ""):
        assert fit_work(encode_work(_of_a_worker(policy=each))).policy == each


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_is_none_is_refused(policy: str) -> None:
    with pytest.raises(UndecodableRecord):
        fit_work(encode_work(_of_a_worker(policy=policy)))


@pytest.mark.parametrize("odd", [_of_a_worker(policy="{"), _of_a_worker(run_id="x" * 255_000)], ids=["policy", "id"])
def test_a_worker_rejects_it_and_goes_on(odd: WorkRecord) -> None:
    """Each ended the worker: the policy when the attempt began, the id at its outcome, which fitted no record."""
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.put(Outgoing(world.names.runs(Tier.MEDIUM), b"k", encode_work(odd)))
    run_ids = world.fire(3)
    for _ in range(6):
        world.turn(worker)
        executors.end_all()
    world.turn(worker, count=3)
    assert len(world.rejects()) == 1
    assert world.succeeded() == sorted(run_ids)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_router_gives_a_run_up_whose_policy_is_none(policy: str) -> None:
    world = router_world.World()
    world.policy = policy
    run_id = world.failed()
    world.turn(world.router(), steps=6)
    assert world.verdicts() == {run_id: 1}
    assert [event.reason for event in world.events(EventKind.RUN_FAILED)] == ["work-record-gone"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_dispatcher_refuses_to_hand_it_out(policy: str) -> None:
    odd = work(policy=policy)
    world: dispatcher_world.World = one_shard()
    world.command(CommandKind.REDRIVE, "t:j", run_id=RUN, work=encode_work(odd), answer=True)
    defer(world, 30, odd, answer=True)
    world.run(2)
    assert verdicts(world) == ["refused", "refused"]
