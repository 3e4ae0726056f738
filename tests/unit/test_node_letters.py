"""Dead letters of the nodes of DagRuns: found, shown, put away by filter and by name, like those of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.api_world import until
from tests.unit.dag_api_world import DagApiWorld
from tests.unit.failing_world import API
from tests.unit.test_api_jobs import problem
from waterclock.dead_letters.choosing import Choice, LetterState
from waterclock.dead_letters.finding import find, mark_of_run
from waterclock.model.errors import NotFound
from waterclock.model.events import EventKind

_NODES = [{"name": "a", "handler": "h"}, {"name": "b", "handler": "h"}]
_FAILED = EventKind.ATTEMPT_FAILED


@pytest.fixture(scope="module")
def world() -> Iterator[DagApiWorld]:
    with DagApiWorld() as world:
        yield world


def _failed(world: DagApiWorld, name: str) -> tuple[str, str, str]:
    """A DagRun that failed, and its two nodes, the one whose letter is listed first in front."""
    dag_run = world.dag_run(name, _NODES)
    world.end(dag_run, "a", _FAILED)
    world.end(dag_run, "b", _FAILED)
    until(lambda: world.status_of(dag_run) == "FAILED")
    return dag_run, f"{dag_run}/b", f"{dag_run}/a"


def _listed(world: DagApiWorld, **query: Any) -> list[str]:
    return [letter["run_id"] for letter in world.client.get(f"{API}/dlq", params=query).json()["letters"]]


def _shown(world: DagApiWorld, run_id: str) -> Any:
    return world.client.get(f"{API}/dlq/{quote(run_id, safe='')}")


def test_a_nodes_letter_that_is_discarded_by_filter_is_open_no_more(world: DagApiWorld) -> None:
    _, *nodes = _failed(world, "by-filter")
    assert _listed(world, job="by-filter") == nodes
    done = world.client.post(f"{API}/dlq/discard", json={"job": "by-filter"}).json()["done"]
    assert [each["run_id"] for each in done] == nodes
    until(lambda: _listed(world, job="by-filter") == [])
    assert _listed(world, job="by-filter", state="discarded") == nodes


def test_a_nodes_letter_is_shown_and_discarded_by_its_name(world: DagApiWorld) -> None:
    _, node, other = _failed(world, "by-name")
    shown = _shown(world, node).json()
    assert (shown["run_id"], shown["state"], shown["error"]) == (node, "open", "ValueError: no 7")
    assert world.client.post(f"{API}/dlq/discard", json={"run_ids": [node]}).status_code == 200
    until(lambda: _shown(world, node).json()["state"] == "discarded")
    assert _shown(world, other).json()["state"] == "open"
    assert _listed(world, job="by-name") == [other]


def test_a_dag_run_has_no_letter(world: DagApiWorld) -> None:
    dag_run, *_ = _failed(world, "no-letter")
    problem(_shown(world, dag_run), 404, "not-found")
    with world.lock, pytest.raises(NotFound):
        mark_of_run(world.store, dag_run)


def test_a_node_that_ended_with_its_dag_runs_time_has_no_letter(world: DagApiWorld) -> None:
    dag_run = world.dag_run("late", _NODES)
    world.event(EventKind.RUN_EXPIRED, dag_run, reason="deadline")
    until(lambda: world.status_of(quote(f"{dag_run}/a", safe="")) == "FAILED")
    problem(_shown(world, f"{dag_run}/a"), 404, "not-found")


def test_a_list_goes_on_behind_a_node(world: DagApiWorld) -> None:
    _, first, second = _failed(world, "paged")
    with world.lock:
        choice = Choice(job_id="default:paged")
        page = find(world.store, "default", choice, 1)
        assert page.next_at is not None
        rest = find(world.store, "default", choice, 1, mark_of_run(world.store, page.next_at.run_id))
        named = find(world.store, "default", Choice(run_ids=frozenset([second]), state=LetterState.ALL), 1)
    assert [letter.run_id for letter in (*page.letters, *rest.letters)] == [first, second]
    assert [letter.run_id for letter in named.letters] == [second]
