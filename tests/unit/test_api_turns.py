"""The threads that ask the store are shared: one tenant's slow questions leave some to everybody else."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld, bearer
from tests.unit.failing_world import API, FailingWorld
from waterclock.api import dlq, turns
from waterclock.api.problems import Problem
from waterclock.api.turns import Turns, whose
from waterclock.dead_letters import finding
from waterclock.dead_letters.finding import Found


def test_slow_questions_of_one_tenant_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that means few letters goes through thousands of rows, on a thread of which there are eight."""
    gate, asked = threading.Event(), threading.Semaphore(0)

    def slow(*_: Any) -> Found:
        asked.release()
        gate.wait(20)
        return Found([], None, is_whole=True)

    monkeypatch.setattr(dlq, "find", slow)
    with ApiWorld() as world, concurrent.futures.ThreadPoolExecutor(12) as pool:
        greedy, other = bearer(world.key("read", tenant="greedy")), bearer(world.key("read", tenant="other"))
        letters = [pool.submit(world.client.get, "/api/v1/dlq?error_class=x", headers=greedy) for _ in range(10)]
        try:
            for _ in range(6):
                assert asked.acquire(timeout=10)
            answer = pool.submit(world.client.get, "/api/v1/jobs", headers=other)
            assert answer.result(10).status_code == 200
            assert not any(letter.done() for letter in letters)
        finally:
            gate.set()
        assert {letter.result(10).status_code for letter in letters} == {200}


def test_what_may_wait_is_left_to_others_and_nothing_is_kept_of_who_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CALLS_MAX", 10)

    async def story() -> list[str]:
        shared, gate = Turns(4), asyncio.Event()
        said: list[str] = []

        async def ask(tenant: str) -> None:
            whose.set(tenant)
            try:
                async with shared.turn():
                    said.append(tenant)
                    await gate.wait()
            except Problem:
                said.append(f"{tenant} refused")

        asking = [asyncio.create_task(ask("a")) for _ in range(12)] + [asyncio.create_task(ask("b"))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*asking)
        assert (shared._count_of, shared._lanes) == ({}, {})
        return said

    said = asyncio.run(story())
    assert said[:7] == ["a", "a", "a", "a refused", "a refused", "a refused", "b"]
    assert said[7:] == ["a"] * 6


def test_tenants_take_turns_to_read_the_past_of_the_log() -> None:
    read: list[str] = []
    world = ApiWorld()

    async def ask(tenant: str) -> None:
        whose.set(tenant)
        await world.services.look_back(5.0, read.append, tenant)

    async def story() -> None:
        asking = [asyncio.create_task(ask(tenant)) for tenant in [*["greedy"] * 5, "other"]]
        await asyncio.gather(*asking)

    asyncio.run(story())
    assert read.index("other") <= 2
    assert read.count("greedy") == 5


def test_a_search_for_dead_letters_lets_others_ask_the_log_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread asks the log for all of an API process, also whether Kafka is there."""
    monkeypatch.setattr(finding, "_STRETCH", 1)
    with FailingWorld() as world:
        world.create(name="plain")
        runs = {world.given_up("plain") for _ in range(4)}
        read: list[int] = []
        ask = world.services.ask

        async def counted(function: Any, *args: Any) -> Any:
            told = await ask(function, *args)
            if isinstance(told, dict) and told.keys() <= runs:
                read.append(len(told))
            return told

        monkeypatch.setattr(world.services, "ask", counted)
        answer = world.client.post(f"{API}/dlq/redrive", json={"run_ids": [*runs], "dry_run": True})
        assert (answer.status_code, answer.json()["refused"]) == (200, [])
        assert read.count(1) == 4


def test_one_tenants_calendar_files_leave_a_turn_to_those_of_others() -> None:
    """Each takes a process and up to ten seconds: two at once are all that a server reads."""

    async def story() -> None:
        importing, gate = Turns(2), asyncio.Event()
        going_on: list[str] = []

        async def read(tenant: str) -> None:
            whose.set(tenant)
            async with importing.turn(5.0):
                going_on.append(tenant)
                await gate.wait()

        reading = [asyncio.create_task(read(tenant)) for tenant in ["greedy", "greedy", "other", "third"]]
        await asyncio.sleep(0.01)
        assert going_on == ["greedy", "other"]
        whose.set("late")
        with pytest.raises(Problem, match="other files"):
            async with importing.turn(0.01, waits_for="other files"):
                raise AssertionError("there was no place")
        gate.set()
        await asyncio.gather(*reading)
        assert (importing._count_of, importing._lanes) == ({}, {})

    asyncio.run(story())


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (2, 1), (8, 6), (64, 48)])
def test_a_tenant_takes_three_quarters_of_the_threads_at_most(threads: int, most: int) -> None:
    assert Turns(threads)._of_tenant == most
