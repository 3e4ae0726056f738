"""An API that nobody asks reads nothing; and whoever asks then misses nothing, and is told nothing false."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.skewed_clock import SkewedClock
from tests.unit.api_world import JOB, ApiWorld, until
from tests.unit.test_api_stream import Served, watching
from tests.unit.test_overview import Teller, counts, overview
from waterclock.api import answers, operations, resting
from waterclock.api.resting import REST_AFTER_S, Resting
from waterclock.api.services import Services
from waterclock.api.tail import SeenBatch, Tail
from waterclock.clock import ManualClock, SystemClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Outgoing
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import US_PER_S
from waterclock.wire.codec import encode_event

JOBS = "/api/v1/jobs"
TOPIC = "events"


@pytest.fixture
def world() -> Iterator[Served]:
    with Served(wait_s=10.0) as world:
        yield world


def rest(services: Services) -> None:
    """Nobody has wanted anything for long enough, and the tail has noticed."""

    def rests() -> bool:
        services.resting._wanted_s -= 2 * REST_AFTER_S
        services.resting.look()
        assert services.tail is not None
        return services.resting.followed_since is None and not services.tail.is_called

    until(rests)


def test_an_api_that_nobody_asks_reads_no_events(world: Served) -> None:
    world.create()
    rest(world.services)
    before = dict(world.services.watchers.positions)
    assert "waterclock_api_follows 0.0" in world.client.get("/metrics").text
    world.second.resting._wanted_s = world.clock.monotonic_s()
    for number in range(5):
        assert world.second.resting.followed_since is not None
        with world.lock:
            world.dispatcher.step()
        assert world.client.get(f"{JOBS}/nightly").status_code == 200, number  # reading wakes nobody
    assert (world.services.resting.followed_since, world.services.watchers.positions) == (None, before)


def test_a_command_to_an_api_that_rests_is_answered_at_once(world: Served) -> None:
    for number in range(5):
        rest(world.services)
        answer = world.client.post(JOBS, json={**JOB, "name": f"job-{number}"})
        assert answer.status_code == 201, answer.text
        assert world.services.resting.followed_since is not None


def test_a_stream_from_an_api_that_rests_begins_now_and_misses_nothing_after(world: Served) -> None:
    world.create()
    rest(world.second)
    world.client.post(f"{JOBS}/nightly/trigger")
    with watching(world) as lines:
        run_id = world.client.post(f"{JOBS}/nightly/trigger").json()["run_id"]
        assert lines.next()["data"]["run_id"] == run_id, "what came before it began is for Last-Event-ID"
        world.second.resting._wanted_s -= 2 * REST_AFTER_S
        world.second.resting.look()
        assert world.second.resting.followed_since is not None, "somebody watches"


def test_the_overview_of_an_api_that_rested_has_no_hole() -> None:
    with ApiWorld() as world:
        teller = Teller(world)

        def done() -> int:
            return counts(overview(world))["done"]

        rest(world.services)
        teller.run("default:a")
        assert done() == 1
        world.services.resting._wanted_s -= 2 * REST_AFTER_S
        world.services.resting.look()
        assert world.services.resting.followed_since is not None, "somebody's counts have to go on"
        teller.run("default:a")
        until(lambda: done() == 2)
        counted = world.client.app.state.counting._counted["default"]  # type: ignore[attr-defined]
        counted.asked_s -= 1_000
        rest(world.services)
        teller.run("default:a")
        assert done() == 3


def test_an_answer_that_passed_while_it_rested_is_found_in_the_log() -> None:
    with ApiWorld(wait_s=0.05) as world:
        world.obeys = False
        place = world.client.post(JOBS, json=JOB).headers["location"]
        world.services.answers.pass_unseen()  # as after ten minutes
        rest(world.services)
        world.obeys = True
        until(lambda: world.records("waterclock.run-events") > 0)
        assert until(lambda: (now := world.client.get(place).json())["status"] != "pending" and now)
        assert world.client.get(place).json()["status"] == "applied"
        assert world.services.resting.followed_since is not None, "who asks will ask again"


@pytest.mark.parametrize("ahead_s", [0, 8, 55])
@pytest.mark.parametrize("is_same", [True, False], ids=["the same after a restart", "another, whose clock is right"])
def test_an_answer_that_was_not_seen_is_found_where_the_api_that_sent_it_is_ahead(ahead_s: int, is_same: bool) -> None:
    """The answer bears the dispatcher's stamp: by that it was there before the command was sent."""
    with ApiWorld() as world:
        services = world.services
        services.clock = clock = SkewedClock(SystemClock(), ahead_s * US_PER_S)
        place = world.client.post(JOBS, json=JOB, headers={"Prefer": "respond-async"}).headers["location"]
        until(lambda: services.answers._recent)
        services.answers._recent.clear()
        if is_same:
            services.resting.followed_since = clock.now()
        assert [world.client.get(place).json()["status"] for _ in range(2)] == ["applied", "applied"]


def test_the_log_is_not_searched_for_an_answer_that_would_have_been_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiWorld(wait_s=0.05) as world:
        rest(world.services)
        world.obeys = False
        place = world.client.post(JOBS, json=JOB).headers["location"]
        monkeypatch.setattr("waterclock.api.operations._search", lambda *_: pytest.fail("there is no use in it"))
        assert world.client.get(place).json()["status"] == "pending"


def test_an_answer_that_nobody_waits_for_any_more_is_looked_out_for_a_while() -> None:
    with ApiWorld(wait_s=0.05) as world:
        world.obeys = False
        place = world.client.post(JOBS, json=JOB).headers["location"]
        world.services.resting._wanted_s -= 2 * REST_AFTER_S
        world.services.resting.look()
        assert world.services.resting.followed_since is not None
        assert world.services.answers.are_owed(world.clock.now() + answers.OWED_US - US_PER_S)
        world.obeys = True
        until(lambda: not world.services.answers.are_owed(world.clock.now()))
        assert world.client.get(place).json()["status"] == "applied"


def test_a_search_for_an_answer_goes_on_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_SEARCHED_MAX", 20)
    with ApiWorld(wait_s=0.05) as world:
        world.obeys = False
        place = world.client.post(JOBS, json=JOB).headers["location"]
        world.services.answers.pass_unseen()
        rest(world.services)
        teller = Teller(world)
        for _ in range(60):
            teller.pending("default:nightly")
        before = world.records("waterclock.run-events")
        world.obeys = True
        until(lambda: world.records("waterclock.run-events") > before)
        asked = [world.client.get(place).json()["status"] for _ in range(6)]
        assert (asked[0], asked[-1]) == ("pending", "applied")
        assert not world.services.searched


def test_events_that_the_log_lost_before_they_were_read_leave_no_hole_unsaid(world: Served) -> None:
    world.create()
    with watching(world) as lines:
        services = world.second
        services._tail_missed({0: 7, 1: 9})
        assert lines.next()["event"] == "dropped"
        assert services.watchers.positions == {0: 7, 1: 9}
        assert not services.would_have_seen("default:nightly", "x", services.resting.followed_since or 0)


# The parts alone ---------------------------------------------------------------------------------------------------


class Parts:
    """A tail and who lets it rest, on a log in memory; the tail moves when a test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = ManualClock(1_795_000_020 * US_PER_S)
        cluster = MemoryCluster(self.clock)
        cluster.create_topic(TOPIC, 1)
        self.log = MemoryLog(cluster, "api")
        self.positions: dict[int, int] = {}
        self.seen: list[int] = []
        self.missed: list[Any] = []
        self.tail = Tail(self.log, TOPIC, loop, self._take, self._began, self._missed)
        self.resting = Resting(self.clock, self.tail.turn_to)
        self.tail.begin()
        self.resting.start()

    def _take(self, batch: SeenBatch) -> None:
        self.seen.extend(each.offset for each in batch)

    def _missed(self, ends: Any) -> None:
        self.missed.append(ends)
        self.resting.miss()

    def _began(self, turn: int, ends: Any) -> None:
        self.resting.began(turn, ends, self.positions)

    def append(self, count: int = 1) -> None:
        event = encode_event(RunEvent(EventKind.PENDING, "acme:a", "acme:a@20261121T090000Z", 1))
        appender = self.log.appender()
        for _ in range(count):
            appender.append(Outgoing(TOPIC, b"acme:a", event))
        appender.close()

    def unwanted(self) -> None:
        self.clock.advance(round(REST_AFTER_S * US_PER_S))
        self.resting.look()

    async def turn(self, times: int = 2) -> None:
        for _ in range(times):
            self.tail.step(0.0)
            await asyncio.sleep(0)


def played(story: Callable[[Parts], Any]) -> None:
    async def play() -> None:
        await story(Parts(asyncio.get_running_loop()))

    asyncio.run(play())


def test_what_passes_while_it_rests_is_not_read_and_what_comes_after_is() -> None:
    async def story(parts: Parts) -> None:
        parts.append()
        await parts.turn()
        parts.unwanted()
        parts.append(5)
        await parts.turn()
        assert parts.seen == [0]
        following = asyncio.create_task(parts.resting.follow())
        await asyncio.sleep(0)
        assert not following.done(), "it does not read yet"
        await parts.turn()
        await following
        assert parts.positions == {0: 6}
        parts.append(2)
        await parts.turn()
        assert parts.seen == [0, 6, 7]

    played(story)


def test_who_wants_it_before_it_has_noticed_that_it_may_rest_waits_for_a_beginning() -> None:
    async def story(parts: Parts) -> None:
        parts.unwanted()
        following = [asyncio.create_task(parts.resting.follow()) for _ in range(3)]
        await asyncio.sleep(0)
        parts.append(3)
        await parts.turn()
        await asyncio.gather(*following)
        parts.append()
        await parts.turn()
        assert (parts.positions, parts.seen) == ({0: 3}, [3])

    played(story)


def test_who_gives_up_waiting_takes_nobody_along() -> None:
    async def story(parts: Parts) -> None:
        parts.unwanted()
        await parts.turn()
        one, other = (asyncio.create_task(parts.resting.follow()) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.sleep(0)
        await parts.turn()
        await other
        assert one.cancelled()

    played(story)


def test_a_log_that_does_not_answer_is_told_to_who_wants_it_and_it_goes_on_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resting, "_FOLLOWS_WITHIN_S", 0.01)

    async def story(parts: Parts) -> None:
        parts.unwanted()
        with pytest.raises(BackendDown, match="run-events cannot be read"):
            await parts.resting.follow()
        await parts.turn()
        await parts.resting.follow()

    played(story)


class Losing:
    """A reader whose position is gone, once."""

    def __init__(self, reader: Any) -> None:
        self._reader, self.loses = reader, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def poll(self, max_records: int, timeout_s: float) -> Any:
        if self.loses:
            self.loses = False
            raise LostResource("position", "offset 3 is not there any more")
        return self._reader.poll(max_records, timeout_s)


def test_a_position_that_the_log_lost_is_told_while_it_reads_and_is_nothing_while_it_rests() -> None:
    async def story(parts: Parts) -> None:
        parts.append(3)
        parts.tail._reader = losing = Losing(parts.tail._reader)  # type: ignore[assignment]
        parts.clock.advance(US_PER_S)
        await parts.turn()
        assert (parts.missed, parts.seen) == ([{0: 3}], [])
        assert parts.resting.followed_since == parts.clock.now()
        parts.unwanted()
        losing.loses = True
        await parts.turn()
        parts.resting.miss()  # told by a turn that is over: it must not look as if it read
        assert (parts.missed, parts.resting.followed_since) == ([{0: 3}], None)

    played(story)


def test_it_rests_while_nobody_needs_it_and_not_before_its_time() -> None:
    async def story(parts: Parts) -> None:
        needed = [True]
        parts.resting.needs.append(lambda: needed[0])
        parts.unwanted()
        parts.unwanted()
        assert parts.resting.followed_since is not None
        needed[0] = False
        parts.resting.look()
        assert parts.resting.followed_since is not None
        parts.unwanted()
        assert parts.resting.followed_since is None

    played(story)
