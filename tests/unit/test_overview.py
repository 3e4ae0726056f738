"""The overview counts each run of the caller's own, once, from the log alone; and the page's files are plain."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import pytest

from tests.unit.api_world import NAMES, ApiWorld, bearer, until
from waterclock.api import counting
from waterclock.api.counting import Counting, recall
from waterclock.api.tail import Seen
from waterclock.api.tally import LAST_RUNS, Tally
from waterclock.log.memory import MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Skipped, Started
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import Tier
from waterclock.wire.messages import event_message

GENERATION = 1
WORKER = {"attempt": 1, "worker": "w", "incarnation": 1}
NONE = {"due": 0, "running": 0, "retrying": 0, "done": 0, "failed": 0, "skipped": 0}


class Teller:
    """Writes what the roles would; ``world`` may be driven meanwhile."""

    def __init__(self, world: ApiWorld) -> None:
        self._world = world
        self._log = MemoryLog(world.cluster, "teller")
        self._appender = self._log.appender()
        self._count = 0

    def say(self, kind: EventKind, run_id: str, **parts: Any) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self._world.clock.now())._replace(**parts)
        with self._world.lock:
            offset = self._appender.append(event_message(NAMES, event)).offset
        assert offset is not None
        return offset

    def pending(self, job_id: str, tier: Tier = Tier.LOW) -> str:
        self._count += 1
        fire_at = self._world.clock.now() - self._count
        run_id = make_run_id(job_id, fire_at)
        self.say(EventKind.PENDING, run_id, detail=Pending(9, fire_at, fire_at, tier, Origin.SCHEDULE))
        return run_id

    def started(self, run_id: str) -> int:
        offset = self.say(EventKind.STARTED, run_id, detail=Started(NAMES.runs(Tier.LOW), 0, 1), **WORKER)
        return ordinal(GENERATION, offset)

    def run(self, job_id: str, *, fails: str = "", tier: Tier = Tier.LOW) -> str:
        run_id = self.pending(job_id, tier)
        token = self.started(run_id)
        ended = Ended(self._world.clock.now(), error_message=fails)
        if fails:
            self.say(EventKind.ATTEMPT_FAILED, run_id, token=token, detail=ended, **WORKER)
            self.say(EventKind.RUN_FAILED, run_id, attempt=1, reason="RuntimeError")
        else:
            self.say(EventKind.ATTEMPT_SUCCEEDED, run_id, token=token, detail=ended, **WORKER)
        return run_id


def lags() -> Mapping[Tier, int]:
    return {Tier.LOW: 7}


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    with ApiWorld() as world:
        world.client.app.state.counting = Counting(world.services, lags)  # type: ignore[attr-defined]
        yield world


@pytest.fixture
def teller(world: ApiWorld) -> Teller:
    return Teller(world)


def overview(world: ApiWorld, **headers: str) -> dict[str, Any]:
    answer = world.client.get("/api/v1/overview", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def counts(found: dict[str, Any], tier: str = "low") -> dict[str, int]:
    row = next(each for each in found["tiers"] if each["tier"] == tier)
    return {name: row[name] for name in NONE}


def test_runs_from_before_the_first_question_are_counted(world: ApiWorld, teller: Teller) -> None:
    teller.run("default:a")
    teller.run("default:b", fails="on purpose")
    teller.started(teller.pending("default:c"))
    teller.pending("default:d")
    found = until(lambda: (found := overview(world)) and counts(found)["due"] and found)
    assert counts(found) == NONE | {"due": 1, "running": 1, "done": 1, "failed": 1}
    assert counts(found, "high") == NONE


@pytest.mark.parametrize("fire_count", [1, 3])
def test_a_run_that_was_held_and_then_dropped_is_one_skip(fire_count: int) -> None:
    at = 1_795_000_000 * US_PER_S
    run_id = make_run_id("default:a", at)
    pending = Pending(9, at, at, Tier.LOW, Origin.SCHEDULE)
    skipped = Skipped(9, at, at + (fire_count - 1) * US_PER_S, fire_count, Tier.LOW, 0)
    tally = Tally("default", generation=GENERATION, since=0)
    for offset, (kind, detail) in enumerate(((EventKind.HELD, pending), (EventKind.SKIPPED, skipped))):
        tally.take([Seen(0, offset, at, RunEvent(kind, "default:a", run_id, at, reason="overlap", detail=detail))])
    standing = tally.standing(at)[Tier.LOW]
    assert (standing.due, standing.skipped) == (0, fire_count)


def test_runs_that_come_later_are_counted_once(world: ApiWorld, teller: Teller) -> None:
    first = teller.pending("default:a")
    overview(world)
    token = teller.started(first)
    assert until(lambda: counts(overview(world))["running"] == 1)
    teller.say(EventKind.ATTEMPT_SUCCEEDED, first, token=token, detail=Ended(1), **WORKER)
    teller.say(EventKind.ATTEMPT_SUCCEEDED, first, token=token, detail=Ended(1), **WORKER)
    teller.run("default:b", tier=Tier.HIGH)
    found = until(lambda: (found := overview(world)) and counts(found, "high")["done"] and found)
    assert counts(found) == NONE | {"done": 1}
    assert counts(found, "high") == NONE | {"done": 1}


def test_nobody_sees_another_tenants_runs(world: ApiWorld, teller: Teller) -> None:
    teller.run("acme:secret", fails="on purpose")
    teller.run("default:mine")
    mine = until(lambda: (found := overview(world)) and counts(found)["done"] and found)
    assert "acme" not in repr(mine)
    acme = overview(world, **bearer(world.key("read", "acme")))
    assert [run["run_id"].partition("@")[0] for run in acme["last_failures"]] == ["acme:secret"]
    assert "mine" not in repr(acme)


def test_an_overview_needs_a_key_where_one_was_made(world: ApiWorld) -> None:
    world.key()
    assert until(lambda: world.client.get("/api/v1/overview").status_code == 401)


def test_a_failure_is_told_with_its_error_and_skips_by_their_number(world: ApiWorld, teller: Teller) -> None:
    run_id = teller.run("default:a", fails="no such invoice")
    skipped = Skipped(9, 1, 5, 4, Tier.LOW, 5)
    teller.say(EventKind.SKIPPED, make_run_id("default:a", 1), detail=skipped)
    found = until(lambda: (found := overview(world)) and counts(found)["skipped"] and found)
    assert counts(found) == NONE | {"failed": 1, "skipped": 4}
    assert [(run["run_id"], run["error"]) for run in found["last_failures"]] == [(run_id, "no such invoice")]
    assert [(run["status"], run["attempt"]) for run in found["last_runs"]] == [("FAILED", 1)]


def test_lag_is_kafkas_and_null_where_it_is_not_known(world: ApiWorld) -> None:
    assert {row["tier"]: row["lag"] for row in overview(world)["tiers"]} == {"high": None, "medium": None, "low": 7}


def test_a_lag_that_cannot_be_had_leaves_the_counts(world: ApiWorld, teller: Teller) -> None:
    def away() -> Mapping[Tier, int]:
        raise BackendDown("kafka", "no answer")

    world.client.app.state.counting = Counting(world.services, away)  # type: ignore[attr-defined]
    teller.run("default:a")
    found = until(lambda: (found := overview(world)) and counts(found)["done"] and found)
    assert {row["lag"] for row in found["tiers"]} == {None}


def test_more_tenants_than_the_bound_are_told_to_come_later(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_TENANTS_MAX", 1)
    overview(world)
    answer = world.client.get("/api/v1/overview", headers=bearer(world.key("read", "acme")))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")


def test_who_asks_no_more_is_forgotten_and_may_ask_again(
    world: ApiWorld, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller.run("default:a")
    until(lambda: counts(overview(world))["done"] == 1)
    monkeypatch.setattr(counting, "_IDLE_S", -1.0)
    teller.run("default:b")
    counted = world.client.app.state.counting._counted  # type: ignore[attr-defined]
    until(lambda: not counted)
    monkeypatch.undo()
    assert until(lambda: counts(overview(world))["done"] == 2)


def test_what_was_too_much_to_read_back_is_told_by_since(world: ApiWorld, teller: Teller) -> None:
    for _ in range(5):
        teller.run("default:a")
    log, now = MemoryLog(world.cluster, "reader"), world.clock.now()
    with world.lock:
        ends = {n: log.high_watermark(TopicPartition(NAMES.run_events, n)) for n in range(2)}
        whole_since, whole = recall(log, NAMES.run_events, "default", ends, now)
        since, part = recall(log, NAMES.run_events, "default", ends, now, records_max=6)
    assert (whole_since, len(whole)) == (now - 3_600 * US_PER_S, 15)
    assert len(part) == 3
    assert since == part[0].at


def test_what_a_tally_remembers_is_bounded_and_ends_are_forgotten_after_an_hour() -> None:
    tally = Tally("default", generation=GENERATION, since=0)
    offset = 0

    def take(kind: EventKind, run_id: str, at: int, **parts: Any) -> int:
        nonlocal offset
        offset += 1
        tally.take([Seen(0, offset, at, RunEvent(kind, "default:a", run_id, at, **parts))])
        return ordinal(GENERATION, offset)

    for minute in range(90):
        at = minute * 60 * US_PER_S
        run_id = make_run_id("default:a", at)
        take(EventKind.PENDING, run_id, at, detail=Pending(9, at, at, Tier.LOW, Origin.SCHEDULE))
        token = take(EventKind.STARTED, run_id, at, detail=Started("t", 0, 1), **WORKER)
        take(EventKind.ATTEMPT_SUCCEEDED, run_id, at, token=token, detail=Ended(at), **WORKER)
    assert tally.standing(90 * 60 * US_PER_S)[Tier.LOW].done == 60
    assert len(tally.last) == LAST_RUNS


def test_an_event_that_names_no_run_is_passed_over() -> None:
    tally = Tally("default", generation=GENERATION, since=0)
    hostile = "default:<img src=x onerror=alert(1)>~x"
    pending = Pending(9, 1, 1, Tier.LOW, Origin.SCHEDULE)
    tally.take([Seen(0, 0, 1, RunEvent(EventKind.PENDING, "default:a", hostile, 1, detail=pending))])
    assert tally.standing(1)[Tier.LOW].due == 0


# The page's files -----------------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return files("waterclock.api.page").joinpath(name).read_text(encoding="utf-8")


def test_the_page_is_served_to_anybody_and_runs_nothing_of_others(world: ApiWorld) -> None:
    world.key()
    answer = world.client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    again = world.client.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in re.findall(r'(?:src|href)="(/[^"]+)"', answer.text):
        assert world.client.get(path).status_code == 200, path


def test_the_page_is_small() -> None:
    assert sum(len(page(name)) for name in ("index.html", "page.js", "page.css", "icon.svg")) < 30_000


def test_the_page_makes_no_markup_of_text_and_loads_nothing_from_elsewhere() -> None:
    code = "\n".join(line for line in page("page.js").splitlines() if not line.lstrip().startswith("//"))
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", code) == []
    for name in ("index.html", "page.js", "page.css"):
        assert re.findall(r"https?://", page(name)) == []
    assert re.findall(r"\son\w+=|style=|<script>|<style", page("index.html")) == []


def test_overviews_of_many_tenants_that_begin_together_hold_no_look_up_of_a_key_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart: an hour is read back for each, and the threads of the store are everybody's."""
    monkeypatch.setattr(counting, "_read_back", lambda *_: time.sleep(0.2))

    async def story() -> float:
        with ApiWorld(threads=2) as world:
            counted = Counting(world.services, dict)
            async with asyncio.TaskGroup() as pages:
                for number in range(8):
                    pages.create_task(counted.tally(f"tenant-{number}"))
                await asyncio.sleep(0.05)
                began_s = time.monotonic()
                await world.services.call(int)
                return time.monotonic() - began_s

    assert asyncio.run(story()) < 0.3
