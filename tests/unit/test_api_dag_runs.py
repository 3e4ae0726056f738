"""DagRuns by the API: shown node by node, paused, cancelled, run again; a dry run says what the engine then does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import bearer, until
from tests.unit.dag_api_world import API, DagApiWorld
from tests.unit.test_api_jobs import problem
from waterclock.model.dag_events import DagStart
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.ids import make_run_id
from waterclock.model.job import JobVersion, Tier
from waterclock.model.stuck_nodes import PATIENCE_US

FAILED = EventKind.ATTEMPT_FAILED
CHAIN = [
    {"name": "a", "handler": "h"},
    {"name": "b", "handler": "h", "after": ["a"]},
    {"name": "c", "handler": "h", "after": ["b"]},
    {"name": "d", "handler": "h"},
]


@pytest.fixture(scope="module")
def world() -> Iterator[DagApiWorld]:
    with DagApiWorld() as world:
        world.signs_in()
        yield world


def post(world: DagApiWorld, run_id: str, verb: str, **body: Any) -> Any:
    return world.client.post(f"{API}/dag-runs/{run_id}/{verb}", json=body)


def by_name(shown: Any) -> dict[str, Any]:
    return {node["node"]: node for node in shown["nodes"]}


def test_a_dag_run_is_shown_node_by_node_with_what_took_longest(world: DagApiWorld) -> None:
    run_id = world.dag_run("shown")
    world.end(run_id, "side")
    world.end(run_id, "list", result=b'["x","y"]')
    until(lambda: world.node(run_id, "load")["items"] == {"PENDING": 2})
    before = by_name(world.show(run_id))
    assert (before["report"]["status"], before["report"]["waits_for"]) == (None, "all_success waits for load")
    world.end(run_id, "load.0", result=b"1")
    world.end(run_id, "load.1", FAILED)
    until(lambda: world.show(run_id)["status"] == "FAILED")
    shown = world.show(run_id)
    found = by_name(shown)
    assert [node["node"] for node in shown["nodes"]] == ["list", "load", "side", "report"]
    assert (found["list"]["result"], found["list"]["counts_as"], found["list"]["attempt"]) == (
        ["x", "y"],
        "SUCCEEDED",
        1,
    )
    assert (found["load"]["status"], found["load"]["items"]) == ("FAILED", {"SUCCEEDED": 1, "FAILED": 1})
    assert found["load"]["run_id"] == f"{run_id}/load.1"
    assert found["load"]["error"] == "ValueError: no 7"
    assert (found["report"]["status"], found["report"]["counts_as"]) == ("SKIPPED", "UPSTREAM_FAILED")
    assert shown["critical_path"] == ["list", "load", "report"]
    assert (shown["reason"], shown["stuck"]) == ("nodes-failed: report", [])


def test_node_runs_come_in_pages_and_each_is_a_run(world: DagApiWorld) -> None:
    run_id = world.dag_run("pages")
    world.end(run_id, "list", result=b"[1,2,3]")
    until(lambda: world.node(run_id, "load")["items"])
    first = world.client.get(f"{API}/dag-runs/{run_id}/nodes", params={"limit": 3}).json()
    assert [node["run_id"].partition("/")[2] for node in first["nodes"]] == ["list", "load.0", "load.1"]
    rest = world.client.get(f"{API}/dag-runs/{run_id}/nodes", params={"cursor": first["next_cursor"]}).json()
    assert [node["run_id"].partition("/")[2] for node in rest["nodes"]] == ["load.2", "side"]
    assert rest["next_cursor"] is None
    run = world.client.get(f"{API}/runs/{run_id}%2Flist").json()
    assert (run["result"], run["made_by"], run["attempts"]) == ([1, 2, 3], "release", [])


def test_a_jobs_dag_runs_are_listed_and_its_skipped_fires_are_not(world: DagApiWorld) -> None:
    run_id = world.dag_run("listed")
    found = world.client.get(f"{API}/jobs/listed/dag-runs").json()
    assert [each["run_id"] for each in found["dag_runs"]] == [run_id]
    assert world.client.get(f"{API}/runs/{run_id}").json()["is_dag"] is True
    assert world.client.get(f"{API}/jobs/nowhere/dag-runs").status_code == 404


def test_a_pause_says_what_it_keeps_back_and_a_resume_what_begins(world: DagApiWorld) -> None:
    run_id = world.dag_run("paused", CHAIN)
    planned = post(world, run_id, "pause", dry_run=True).json()
    assert (planned["never"], planned["goes_on"], planned["dry_run"]) == (["b", "c"], ["a", "d"], True)
    assert world.show(run_id)["paused"] is False, "a dry run changes nothing"
    acted = post(world, run_id, "pause", note="wait").json()
    assert (acted["paused"], acted["status"]) == (True, "RUNNING")
    world.end(run_id, "a")
    assert [(each["node"], each["reason"]) for each in world.show(run_id)["stuck"]] == [("b", "paused")]
    assert post(world, run_id, "resume", dry_run=True).json()["runs"] == ["b"]
    assert post(world, run_id, "resume").json()["paused"] is False
    until(lambda: world.node(run_id, "b")["status"] == "PENDING")


def test_a_cancel_says_what_it_ends_and_ends_it(world: DagApiWorld) -> None:
    run_id = world.dag_run("cancelled", CHAIN)
    world.started(f"{run_id}/d")
    until(lambda: world.node(run_id, "d")["status"] == "RUNNING")
    planned = post(world, run_id, "cancel", dry_run=True).json()
    assert (planned["stopped"], planned["never"]) == (["d"], ["a", "b", "c"])
    acted = post(world, run_id, "cancel", note="too late").json()
    assert (acted["status"], acted["cancel_requested"]) == ("RUNNING", True)
    assert world.node(run_id, "a")["status"] == "CANCELLED"
    refused = problem(post(world, run_id, "pause", dry_run=True), 409, "wrong-state")
    assert refused["detail"].endswith("is to end (too late)")
    assert post(world, run_id, "pause").json() == {**acted, "paused": False}, "it is told as it is"


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_has_not_begun_is_not_paused(world: DagApiWorld, verb: str) -> None:
    before = world.dag_run("held", CHAIN)
    run_id = make_run_id(before.partition("@")[0], 5_000_000)
    detail = Pending(1, 5_000_000, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
    world.event(EventKind.HELD, run_id, reason="max-concurrent", detail=detail)
    until(lambda: world.client.get(f"{API}/dag-runs/{run_id}").status_code == 200)
    for dry_run in (True, False):
        refused = problem(post(world, run_id, verb, dry_run=dry_run), 409, "wrong-state")
        assert refused["detail"].endswith("it has not begun")


def test_a_node_is_cancelled_by_itself(world: DagApiWorld) -> None:
    run_id = world.dag_run("one-node", CHAIN)
    answer = world.client.post(f"{API}/runs/{run_id}%2Fa/cancel")
    assert answer.json() == {"run_id": f"{run_id}/a", "status": "CANCELLED", "cancel_requested": True}
    until(lambda: world.node(run_id, "b")["counts_as"] == "UPSTREAM_FAILED")


@pytest.mark.parametrize(
    ("body", "again", "kept", "begins"),
    [
        ({}, ["a", "b", "c", "d"], [], []),
        ({"from": ["b"]}, ["b", "c"], ["a", "d"], ["b"]),
        ({"failed": True}, ["b", "c"], ["a", "d"], ["b"]),
    ],
)
def test_a_rerun_runs_what_its_dry_run_says(
    world: DagApiWorld, body: dict[str, Any], again: list[str], kept: list[str], begins: list[str]
) -> None:
    run_id = world.dag_run(f"again-{len(begins)}-{'failed' in body}".lower(), CHAIN)
    assert problem(post(world, run_id, "rerun"), 409, "wrong-state")["hint"].startswith("Wait for its end")
    world.end(run_id, "d")
    world.end(run_id, "a")
    world.end(run_id, "b", FAILED)
    until(lambda: world.show(run_id)["status"] == "FAILED")
    planned = post(world, run_id, "rerun", **body, dry_run=True).json()
    assert (planned["runs"], planned["kept"], planned["begins"]) == (again, kept, begins)
    made = post(world, run_id, "rerun", **body)
    assert made.status_code == 201, made.text
    new_id = made.json()["run_id"]
    assert made.json()["linked_run"] == run_id
    first = again[0]
    until(lambda: world.node(new_id, first)["status"] == "PENDING")
    shown = world.show(new_id)
    assert (shown["linked_run"], shown["rerun_from"], shown["made_by"]) == (run_id, begins, "redrive")
    assert [node["node"] for node in shown["nodes"] if node["reason"] == "kept"] == kept


def test_a_rerun_names_what_it_cannot_do(world: DagApiWorld) -> None:
    run_id = world.dag_run("refused", [CHAIN[0]])
    world.end(run_id, "a")
    until(lambda: world.show(run_id)["status"] == "SUCCEEDED")
    assert problem(post(world, run_id, "rerun", failed=True), 409, "wrong-state")["detail"].startswith("No node of")
    unknown = problem(post(world, run_id, "rerun", **{"from": ["z"]}), 422, "invalid")
    assert (unknown["errors"][0]["pointer"], unknown["hint"]) == ("/from", "Its nodes: a")
    both = post(world, run_id, "rerun", **{"from": ["a"], "failed": True})
    assert problem(both, 422, "invalid")["hint"] == "Leave one of them out"
    for verb in ("cancel", "pause", "resume"):
        assert problem(post(world, run_id, verb, dry_run=True), 409, "wrong-state")
        assert post(world, run_id, verb).json()["status"] == "SUCCEEDED", "as it is: a repeat may come after its end"
    assert problem(post(world, run_id, "cancel", older_than="1m"), 422, "invalid")


def test_the_same_rerun_again_makes_no_second_one(world: DagApiWorld) -> None:
    run_id = world.dag_run("once", [CHAIN[0]])
    world.end(run_id, "a")
    until(lambda: world.show(run_id)["status"] == "SUCCEEDED")
    headers = {"Idempotency-Key": "once"}
    answers = [world.client.post(f"{API}/dag-runs/{run_id}/rerun", headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(world.client.get(f"{API}/jobs/once/dag-runs").json()["dag_runs"]) == 2


def test_a_dag_run_of_another_tenant_and_a_plain_run_are_not_found(world: DagApiWorld) -> None:
    run_id = world.dag_run("mine", [CHAIN[0]])
    world.create(name="plain")
    plain = world.triggered("plain")
    assert problem(world.client.get(f"{API}/dag-runs/{plain}"), 404, "not-found")
    assert problem(world.client.get(f"{API}/dag-runs/{plain}/nodes"), 404, "not-found")
    other = bearer(world.key(tenant="other"))
    for path in (f"dag-runs/{run_id}", f"dag-runs/{run_id}/nodes", f"runs/{run_id}%2Fa"):
        assert problem(world.client.get(f"{API}/{path}", headers=other), 404, "not-found")
    assert problem(world.client.post(f"{API}/dag-runs/{run_id}/cancel", headers=other), 404, "not-found")
    assert world.client.get(f"{API}/dag-runs/stuck", headers=other).json()["looked_at"] == 0


def test_what_is_stuck_is_found_among_open_dag_runs(world: DagApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = world.dag_run("stuck", [*CHAIN[:2], {"name": "x", "handler": "h"}])
    path = f"{API}/dag-runs/stuck"
    assert world.client.get(path, params={"job": "stuck"}).json()["stuck"] == [], "silent while all is fresh"
    now = world.services.clock.now
    monkeypatch.setattr(world.services.clock, "now", lambda: now() + 2 * PATIENCE_US)
    found = world.client.get(path, params={"job": "stuck"}).json()
    assert [(each["run_id"], each["node"], each["reason"], each["behind"]) for each in found["stuck"]] == [
        (run_id, "a", "no-worker", 1),
        (run_id, "x", "no-worker", 0),
    ]
    assert found["looked_at"] == 1


def test_nothing_is_said_to_be_stuck_in_a_job_that_does_not_exist(world: DagApiWorld) -> None:
    path = f"{API}/dag-runs/stuck"
    world.create(name="idle", every="1h")
    idle = world.client.get(path, params={"job": "idle"})
    assert (idle.status_code, idle.json()["stuck"]) == (200, [])
    assert problem(world.client.get(path, params={"job": "idel"}), 404, "not-found")["detail"].endswith("'idel'")
    assert world.client.delete(f"{API}/jobs/idle").status_code == 200
    assert world.client.get(path, params={"job": "idle"}).status_code == 200, "history still tells of it"


def test_a_version_that_is_not_understood_is_no_failure_of_ours(
    world: DagApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.dag_run("of-later", CHAIN[:1])
    store = world.services.store

    def version(_job_id: str, _revision: int) -> JobVersion:
        raise ValueError("'most_success' is not a valid TriggerRule")

    monkeypatch.setattr(store, "version", version)
    shown = world.show(run_id)
    assert (shown["status"], shown["nodes"], shown["stuck"]) == ("RUNNING", [], [])
    stuck = world.client.get(f"{API}/dag-runs/stuck", params={"job": "of-later"})
    assert (stuck.status_code, stuck.json()["looked_at"], stuck.json()["stuck"]) == (200, 1, [])
    assert problem(post(world, run_id, "rerun"), 409, "wrong-state")


def test_a_rerun_that_is_dropped_at_once_is_found_where_its_answer_points(world: DagApiWorld) -> None:
    document = {"name": "full", "at": "2099-01-01T00:00:00Z", "overlap": "skip", "dag": {"nodes": CHAIN[:1]}}
    assert world.client.post(f"{API}/jobs", json=document).status_code == 201
    ended = world.triggered("full")
    world.end(ended, "a")
    until(lambda: world.status_of(ended) == "SUCCEEDED")
    world.triggered("full")
    answer = post(world, ended, "rerun")
    assert answer.json()["skipped"] == "overlap"
    found = world.client.get(answer.headers["location"])
    assert (found.status_code, found.json()["run_id"]) == (200, answer.json()["run_id"])


def test_a_dag_run_that_waited_and_was_dropped_is_still_shown_as_one(world: DagApiWorld) -> None:
    document = {"name": "dropped", "at": "2099-01-01T00:00:00Z", "overlap": "buffer_one", "dag": {"nodes": CHAIN[:1]}}
    assert world.client.post(f"{API}/jobs", json=document).status_code == 201
    world.triggered("dropped")
    waits = world.triggered("dropped")
    until(lambda: world.client.get(f"{API}/dag-runs/{waits}").status_code == 200)
    assert world.client.delete(f"{API}/jobs/dropped").status_code == 200
    until(lambda: world.status_of(waits) == "SKIPPED")
    shown = world.show(waits)
    assert (shown["status"], [node["status"] for node in shown["nodes"]]) == ("SKIPPED", [None])
    run = world.client.get(f"{API}/runs/{waits}").json()
    assert (run["is_dag"], run["made_by"], run["skipped_count"]) == (True, "trigger", 1)
