"""What the API keeps: its keys, answers under their idempotency keys, operations; and pages that leave nothing out."""

from __future__ import annotations

from waterclock.model.ids import US_PER_S
from waterclock.store.port import ApiKey, History, JobChange
from waterclock.store.request_port import KeptAnswer, Operation

from .world import StoreWorld

WAIT_S = 10.0


def _key(world: StoreWorld, prefix: str = "k", **parts: object) -> ApiKey:
    # Real keys share a partition with those of other cases: the tenant's name keeps them apart.
    key = ApiKey(f"{world.tenant}{prefix}", b"\x00" * 31 + b"\xff", world.tenant, "ci", "read write", world.now)
    return key._replace(**parts)  # type: ignore[arg-type]  # fields by name


def test_a_key_is_read_back_whole_and_listed(world: StoreWorld) -> None:
    first, second = _key(world, "a"), _key(world, "b", expires_at=world.now + 5)
    world.store.put_key(second)
    world.store.put_key(first)

    assert world.other.key(first.prefix) == first
    assert [key for key in world.other.keys(500) if key.tenant == world.tenant] == [first, second]
    assert world.other.key(f"{world.tenant}none") is None


def test_a_revoked_key_stays_and_says_when(world: StoreWorld) -> None:
    key = _key(world)
    revoked = key._replace(revoked_at=world.now + 7)
    world.store.put_key(revoked)
    world.store.put_key(key)  # a write that was under way when it was revoked

    assert world.other.key(key.prefix) == revoked


def test_an_answer_is_kept_under_its_tenant_and_key(world: StoreWorld) -> None:
    answer = KeptAnswer(world.tenant, "hash", b"print", 201, '{"etag":"\\"5\\""}', b'{"job_id":"x"}', world.now)
    world.store.keep_answer(answer)

    assert world.other.kept_answer(world.tenant, "hash") == answer
    assert world.other.kept_answer(f"{world.tenant}-2", "hash") is None


def test_an_operation_is_kept_under_its_tenant_and_id(world: StoreWorld) -> None:
    operation = Operation(world.tenant, "api-1", world.job_id(), "CREATE", world.now)
    world.store.keep_operation(operation)

    assert world.other.operation(world.tenant, "api-1") == operation
    assert world.other.operation(f"{world.tenant}-2", "api-1") is None


def test_many_jobs_are_read_in_the_order_of_their_ids(world: StoreWorld) -> None:
    first, second = world.job("first"), world.job("second")
    world.store.apply([JobChange(first, None), JobChange(second, None)])

    found = world.other.job_rows([world.job_id("second"), world.job_id("none"), world.job_id("first")])
    assert found == [second, None, first]


def test_a_page_that_ends_among_runs_of_one_fire_time_goes_on_with_the_next_of_them(world: StoreWorld) -> None:
    runs = [world.run(fire_at=world.now - ago * US_PER_S, series=series) for ago in (0, 1) for series in (9, 5, 0)]
    world.store.record(History(runs)).wait(WAIT_S)

    last = world.store.runs(world.job_id(), 2)[-1]
    assert world.store.runs(world.job_id(), 10, last.fire_at, last.series) == runs[2:]
