"""What no server takes, whatever a caller means by it: a bug is found here before it is found there."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from cassandra import RequestValidationException

from waterclock.store.port import Store

from .world import StoreWorld

REFUSED = (ValueError, struct.error, RequestValidationException)


@pytest.mark.parametrize("limit", [0, -1, 2**31])
def test_a_page_of_nothing_or_of_too_much_is_refused(world: StoreWorld, limit: int) -> None:
    job_id = world.job_id()
    pages: list[Callable[[], object]] = [
        lambda: world.store.jobs(world.tenant, limit),
        lambda: world.store.history(job_id, limit),
        lambda: world.store.lines(f"{job_id}@20261101T000000Z", 1, limit),
        lambda: world.store.keys(limit),
    ]
    for page in pages:
        with pytest.raises(REFUSED):
            page()


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.job(""),
        lambda store: store.version("", 1),
        lambda store: store.job("x" * 65_536),
        lambda store: store.kept_answer("tenant", "x" * 65_536),
        lambda store: store.job("half \ud800"),
        lambda store: store.key("half \ud800"),
    ],
    ids=["empty", "empty of a row", "too long", "too long in part", "half a character", "half a character of a row"],
)
def test_a_key_that_cannot_be_is_refused(world: StoreWorld, ask: Callable[[Store], object]) -> None:
    with pytest.raises(REFUSED):
        ask(world.store)


def test_a_text_that_is_no_utf_8_is_refused_and_nothing_is_written(world: StoreWorld) -> None:
    good = world.due(name="good")
    with pytest.raises(REFUSED):
        world.store.write_due([good, world.due(name="half \ud800")])
    assert world.store.load_due([good.slot], good.minute) == []


def test_the_longest_key_and_one_with_empty_parts_are_taken(world: StoreWorld) -> None:
    assert world.store.job("x" * 65_535) is None
    assert world.store.kept_answer("", "") is None
