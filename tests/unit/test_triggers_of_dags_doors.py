"""Dags that others start, through the API: saved, read back, changed, refused; and a DagRun says what started it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import NAMES, until
from tests.unit.dag_api_world import DagApiWorld
from tests.unit.dag_chain_world import ORDERS
from tests.unit.failing_world import API
from waterclock.model.ids import make_run_id
from waterclock.model.job import Command, CommandKind
from waterclock.wire.messages import command_message

JOBS = f"{API}/jobs"
NODES = [{"name": "a", "handler": "h", "payload": 1}, {"name": "b", "handler": "h", "after": ["a"]}]
LOAD = {"job": "load", "ended": "succeeded"}
ON_ORDERS = {"topic": ORDERS, "headers": {"type": "placed"}}
WINDOW = {"all": [LOAD, {"job": "items", "ended": "any"}], "within": "5m"}


@pytest.fixture(scope="module")
def world() -> Iterator[DagApiWorld]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATERCLOCK_INTAKE__SOURCES", f'{{"{ORDERS}": ["default"]}}')
        with DagApiWorld() as world:
            yield world


def saved(world: DagApiWorld, name: str, **parts: Any) -> Any:
    """The answer to a Dag without a schedule."""
    document = {"name": name, "dag": {"nodes": NODES, "timeout": "1h"}, "on": {"any": [LOAD]}}
    answer = world.client.post(JOBS, json=document | parts)
    assert answer.status_code == 201, answer.text
    return answer


@pytest.mark.parametrize(
    ("name", "on"), [("end", {"any": [LOAD]}), ("record", {"any": [ON_ORDERS, LOAD]}), ("window", WINDOW)]
)
def test_a_dag_that_others_start_is_saved_and_read_back_as_it_was_given(
    world: DagApiWorld, name: str, on: dict[str, Any]
) -> None:
    made = saved(world, f"saved-{name}", on=on).json()
    assert (made["on"], made["dag"]) == (on, {"nodes": NODES, "timeout": "1h"})
    assert (made["next_fire_time"], "handler" in made) == (None, False)
    read = world.client.get(f"{JOBS}/saved-{name}")
    assert read.json() == made
    bare = [{"name": "a", "handler": "h"}, NODES[1]]
    listed = {job["name"]: job for job in world.client.get(JOBS, params={"limit": 500}).json()["jobs"]}
    assert (listed[f"saved-{name}"]["on"], listed[f"saved-{name}"]["dag"]["nodes"]) == (on, bare)


def test_a_change_of_the_dag_keeps_what_starts_it_and_the_other_way_round(world: DagApiWorld) -> None:
    first = saved(world, "changed")
    fewer = {"nodes": NODES[:1], "timeout": "1h"}
    second = patched(world, first, dag={"nodes": NODES[:1]})
    assert (second.json()["on"], second.json()["dag"]) == ({"any": [LOAD]}, fewer)
    third = patched(world, second, on=WINDOW | {"any": None}, cron="0 9 * * *")
    assert (third.json()["on"], third.json()["dag"], third.json()["cron"]) == (WINDOW, fewer, "0 9 * * *")
    fourth = patched(world, third, on=None)
    assert ("on" in fourth.json(), fourth.json()["dag"]) == (False, fewer)
    assert world.client.get(f"{JOBS}/changed").json() == fourth.json()
    back = {"to_revision": first.json()["revision"]}
    answer = world.client.post(f"{JOBS}/changed/rollback", json=back, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["on"], answer.json()["dag"]) == ({"any": [LOAD]}, first.json()["dag"])


def patched(world: DagApiWorld, before: Any, **parts: Any) -> Any:
    answer = world.client.patch(f"{JOBS}/changed", json=parts, headers={"If-Match": before.headers["etag"]})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize(
    ("on", "pointer"),
    [
        (None, ""),
        ({"any": [{"job": "refused"}]}, "/on/any/0/job"),
        ({"any": [LOAD, {"topic": "shop.secret"}]}, "/on/any/1/topic"),
        ({"all": [LOAD], "within": "5m"}, "/on/all"),
        ({"any": [ON_ORDERS], "within": "32d"}, "/on/within"),
    ],
)
def test_a_dag_that_nothing_starts_or_not_so_is_refused_at_its_place(
    world: DagApiWorld, on: dict[str, Any] | None, pointer: str
) -> None:
    document = {"name": "refused", "dag": {"nodes": NODES}} | ({"on": on} if on else {})
    answer = world.client.post(JOBS, json=document)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer), answer.text
    assert world.client.get(f"{JOBS}/refused").status_code == 404


def test_a_dag_run_says_which_end_started_it_and_its_nodes_are_released(world: DagApiWorld) -> None:
    saved(world, "told")
    source = make_run_id("default:load", world.clock.now())
    started = Command(CommandKind.TRIGGER, "default:told", f"{source}/succeeded", "trigger", world.clock.now(),
                      triggered_by=source, hops=1, ended="succeeded", ended_at=world.clock.now())  # fmt: skip
    world.append(command_message(NAMES, started))
    (run,) = until(lambda: world.client.get(f"{JOBS}/told/dag-runs").json()["dag_runs"])
    assert (run["made_by"], run["triggered_by"], run["linked_run"]) == ("trigger", source, None)
    until(lambda: world.node(run["run_id"], "a")["status"])
    world.end(run["run_id"], "a")
    world.end(run["run_id"], "b")
    until(lambda: world.show(run["run_id"])["status"] == "SUCCEEDED")
    assert world.show(run["run_id"])["triggered_by"] == source
