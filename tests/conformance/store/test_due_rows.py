"""The time index: what is written is read back in order, by bucket, for as long as it should live."""

from __future__ import annotations

import random
import struct

import pytest

from waterclock.model.errors import ClockBehind
from waterclock.model.ids import US_PER_MINUTE, US_PER_S
from waterclock.store.port import DueRow

from .world import US_PER_DAY, StoreWorld

HOUR_US = 3_600 * US_PER_S


def test_a_due_row_is_read_back_as_it_was_written_with_its_stamp(world: StoreWorld) -> None:
    row = world.due(entry="x#2", attempt=2, env=bytes(range(256)), wts=world.now - 123)

    world.write_due(row)

    assert world.bucket(row) == [row]


def test_a_bucket_comes_in_the_order_of_its_key(world: StoreWorld) -> None:
    rows = [
        world.due(second=second, name=name, revision=revision, entry=entry)
        for second in (0, 0.5, 59)
        for name in ("a", "a-b", "b", "z")
        for revision in (3, 20)
        for entry in ("", "20261121T090000Z#1", "20261121T090000Z#10")
    ]
    shuffled = random.Random(5).sample(rows, len(rows))

    world.write_due(*shuffled)

    assert world.bucket(rows[0]) == rows


def test_only_the_slots_and_the_minute_asked_for_are_read(world: StoreWorld) -> None:
    wanted = [world.due(slot=slot) for slot in (0, 128, 255)]
    world.write_due(*wanted, world.due(slot=1), world.due(minute=world.minute + 1), world.due(minute=world.minute - 1))

    found = world.store.load_due([255, 0, 3, 128], world.minute)

    assert sorted(found) == sorted(wanted)


def test_a_bucket_of_many_pages_is_read_whole(world: StoreWorld) -> None:
    rows = [world.due(second=i / 200, name=f"n{i:05d}", env=b"e" * 20) for i in range(6_000)]

    world.write_due(*rows)

    assert world.bucket(rows[0]) == rows


def test_rows_of_many_partitions_all_land(world: StoreWorld) -> None:
    rows = [world.due(slot=slot, name=f"n{i}") for slot in range(256) for i in range(1 + slot % 3 * 7)]

    world.write_due(*rows)

    assert sorted(world.store.load_due(range(256), world.minute)) == sorted(rows)


def test_large_envelopes_go_out_in_requests_that_the_server_takes(world: StoreWorld) -> None:
    alone = [world.due(slot=slot, env=b"x" * size) for slot, size in ((1, 30_000), (2, 30_000), (3, 64_000), (4, 5))]
    together = [world.due(slot=9, name=f"n{i}", env=b"y" * 60_000) for i in range(20)]

    world.write_due(*alone, *together)

    assert sorted(world.store.load_due([1, 2, 3, 4, 9], world.minute)) == sorted(alone + together)


def test_nothing_to_do_is_done_at_once(world: StoreWorld) -> None:
    world.store.write_due([])
    world.store.apply([])
    assert world.store.dispose_due([], 5)

    assert world.store.load_due([], world.minute) == []


def test_a_replay_changes_nothing(world: StoreWorld) -> None:
    rows = [world.due(name=f"n{i}") for i in range(5)]
    world.write_due(*rows)

    world.write_due(*rows[:2])
    world.other.write_due([*rows, *rows])

    assert world.bucket(rows[0]) == rows


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_younger_stamp_wins_whatever_comes_last(world: StoreWorld, order: tuple[int, int]) -> None:
    rows = [world.due(env=b"zombie", attempt=9, wts=world.now), world.due(env=b"a", attempt=1, wts=world.now + 1)]

    for number in order:
        (world.store, world.other)[number].write_due([rows[number]])

    assert world.bucket(rows[0]) == [rows[1]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_equal_stamps_are_settled_cell_by_cell_by_the_larger_bytes(world: StoreWorld, order: tuple[int, int]) -> None:
    for slot in range(1, 21):  # anew where a second ends between the writes: then the one that expires later wins whole
        rows = [
            world.due(slot=slot, tenant="a", env=b"z", attempt=-1),
            world.due(slot=slot, tenant="ab", env=b"y\xff", attempt=1),
        ]
        second = world.clock.now() // US_PER_S
        for number in order:
            world.write_due(rows[number])
        if world.clock.now() // US_PER_S == second:
            break
    else:
        pytest.fail("twenty times a second ended between two writes")

    assert world.bucket(rows[0]) == [rows[1]._replace(env=b"z", attempt=-1)]


@pytest.mark.parametrize("late", [False, True])
def test_a_delete_hides_what_is_not_younger_also_when_it_came_first(world: StoreWorld, *, late: bool) -> None:
    older, equal, younger = (world.due(name=name, wts=world.now + at) for name, at in (("a", -1), ("b", 0), ("c", 1)))
    deletes = [world.delete(row, world.now) for row in (older, equal, younger)]

    if not late:
        world.remove(*deletes)
    world.write_due(older, equal, younger)
    if late:
        world.remove(*deletes)

    assert world.bucket(older) == [younger]


def test_a_delete_takes_exactly_one_row(world: StoreWorld) -> None:
    row = world.due()
    beside = [world.due(revision=12), world.due(entry="e"), world.due(second=1), world.due(name="other")]
    world.write_due(row, *beside)

    world.remove(world.delete(row, world.now + HOUR_US))

    assert sorted(world.bucket(row)) == sorted(beside)


def test_a_row_deleted_by_a_command_cannot_be_written_back_by_a_zombie(world: StoreWorld) -> None:
    row = world.due()
    world.remove(world.delete(row, world.now + HOUR_US))

    world.other.write_due([row, row._replace(wts=world.now + 60 * US_PER_S)])

    assert world.bucket(row) == []


def _old(world: StoreWorld, **parts: object) -> DueRow:
    """A row whose bucket ended two hours ago."""
    minute = world.minute - (world.minute - world.now // US_PER_MINUTE) * 2 - 120
    return world.due(minute=minute)._replace(**parts)  # type: ignore[arg-type]  # fields by name


def test_disposal_empties_whole_buckets_and_only_those(world: StoreWorld) -> None:
    row = _old(world)
    end = (row.minute + 1) * US_PER_MINUTE
    consumed = [row._replace(job_id=world.job_id(name), wts=end + at) for name, at in (("a", -HOUR_US), ("b", HOUR_US))]
    kept = [row._replace(slot=8, wts=end), row._replace(minute=row.minute + 1, due_at=end, wts=end)]
    world.write_due(*consumed, *kept)

    assert world.store.dispose_due([row.slot, 99], row.minute)
    world.other.write_due(consumed)

    assert world.bucket(row) == []
    assert [world.bucket(each) for each in kept] == [[each] for each in kept]


def test_a_bucket_is_not_disposed_of_before_an_hour_after_its_end(world: StoreWorld) -> None:
    minute = world.now // US_PER_MINUTE - 59

    row = world.due(slot=7, minute=minute)
    world.write_due(row)

    assert not world.store.dispose_due([7], minute)

    assert world.bucket(row) == [row]


def test_a_row_lives_three_days_beyond_its_time(world: StoreWorld) -> None:
    gone, going, staying = (world.due_at_edge_of_life(left) for left in (-5, 10, 600))  # 10 s: servers may be busy

    world.write_due(gone, going, staying)

    assert gone not in world.bucket(gone)
    assert going in world.bucket(going)
    world.pass_until(lambda: going not in world.bucket(going))
    assert staying in world.bucket(staying)


def test_a_replay_does_not_lengthen_a_rows_life(world: StoreWorld) -> None:
    row = world.due_at_edge_of_life(3)
    world.write_due(row)
    end = row.due_at + 3 * US_PER_DAY

    world.pass_until(lambda: world.clock.now() > end - 2 * US_PER_S)
    world.write_due(row)

    world.pass_until(lambda: row not in world.bucket(row))
    assert world.clock.now() < end + 2 * US_PER_S


def test_a_row_with_an_entry_never_expires(world: StoreWorld) -> None:
    plain, entry = world.due_at_edge_of_life(1), world.due_at_edge_of_life(1, entry="20261118T090000Z#2")

    world.write_due(plain, entry)

    world.pass_until(lambda: plain not in world.bucket(plain))
    assert world.bucket(entry) == [entry]


def test_a_row_years_ahead_is_kept(world: StoreWorld) -> None:
    row = world.due(minute=world.minute + 30 * 365 * 1_440)

    world.write_due(row)

    assert world.bucket(row) == [row]


@pytest.mark.parametrize(("lead", "error"), [(-1 << 62, ValueError), (3 * HOUR_US, ClockBehind)])
def test_a_stamp_that_would_win_for_ever_is_refused_and_nothing_is_written(
    world: StoreWorld, lead: int, error: type[Exception]
) -> None:
    good, bad = world.due(name="good"), world.due(name="bad", wts=world.now + lead)

    with pytest.raises(error, match="stamp"):
        world.write_due(good, bad)

    assert world.bucket(good) == []


@pytest.mark.parametrize("broken", [{"minute": 5}, {"slot": 256}, {"slot": -1}, {"env": b""}])
def test_a_row_that_no_reader_would_find_is_refused(world: StoreWorld, broken: dict[str, object]) -> None:
    row = world.due()

    with pytest.raises(ValueError, match="time index"):
        world.write_due(row._replace(**broken))  # type: ignore[arg-type]  # fields by name

    assert world.bucket(row) == []


@pytest.mark.parametrize(
    "broken", [{"minute": 2**31}, {"attempt": 2**31}, {"revision": 2**63}, {"attempt": -(2**31) - 1}]
)
def test_a_number_that_does_not_fit_its_column_is_refused(world: StoreWorld, broken: dict[str, int]) -> None:
    fits = world.due(**{name: number - 1 if number > 0 else number + 1 for name, number in broken.items()})
    with pytest.raises(struct.error):
        world.write_due(fits, world.due(**broken))
    assert world.bucket(fits) == []
