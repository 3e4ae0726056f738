"""A node of a DagRun is not redriven by itself: both doors refuse it with what to do instead, and the others go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.unit.api_world import NAMES, until
from tests.unit.dag_api_world import DagApiWorld
from tests.unit.failing_world import API
from tests.unit.in_process import Run, on_ports_of
from waterclock.commands import dlq
from waterclock.model.events import EventKind
from waterclock.model.job import CommandKind
from waterclock.wire.codec import decode_command


class Failed(NamedTuple):
    """A DagRun that failed, its node that did, and a run of a plain job; both are given up for the same cause."""

    dag_run: str
    node: str
    plain: str

    @property
    def remedy(self) -> str:
        """What the refusal of the node names."""
        return f"`waterclock dag rerun '{self.dag_run}' --failed`"


@pytest.fixture
def world() -> Iterator[DagApiWorld]:
    with DagApiWorld() as world:
        yield world


@pytest.fixture
def failed(world: DagApiWorld) -> Failed:
    """With the node's letter listed first."""
    world.create(name="plain")
    plain = world.given_up("plain")
    dag_run = world.dag_run("nightly", [{"name": "load", "handler": "h"}])
    node = f"{dag_run}/load"
    world.end(dag_run, "load", EventKind.ATTEMPT_FAILED)
    world.append_letter(node)
    until(lambda: world.status_of(dag_run) == "FAILED")
    return Failed(dag_run, node, plain)


@pytest.fixture
def waterclock(world: DagApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return on_ports_of(world, monkeypatch, capsys, dlq)


def _redriven(world: DagApiWorld, **body: Any) -> dict[str, Any]:
    answer = world.client.post(f"{API}/dlq/redrive", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def _redrives_sent(world: DagApiWorld) -> list[str]:
    """The runs that any door has sent a redrive of."""
    commands = (decode_command(record.value or b"") for record in world.all_of(NAMES.commands))
    return [command.run_id for command in commands if command.kind is CommandKind.REDRIVE]


def _state(world: DagApiWorld, run_id: str) -> str:
    return str(world.client.get(f"{API}/dlq/{quote(run_id, safe='')}").json()["state"])


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("is_forced", [True, False])
def test_the_api_refuses_a_node_by_its_name_and_says_what_runs_it_again(
    world: DagApiWorld, failed: Failed, dry_run: bool, is_forced: bool
) -> None:
    told = _redriven(world, run_ids=[failed.node], dry_run=dry_run, force=is_forced)
    (refused,) = told["refused"]
    assert (told["matched"], told["done"], refused["run_id"]) == (1, [], failed.node)
    assert failed.remedy in refused["why"]
    assert _redrives_sent(world) == []
    assert _state(world, failed.node) == "open"


def test_a_bulk_redrive_by_the_api_refuses_nodes_and_goes_on_with_runs(world: DagApiWorld, failed: Failed) -> None:
    dry = _redriven(world, error_class="ValueError", dry_run=True)
    assert (dry["matched"], [each["run_id"] for each in dry["refused"]]) == (2, [failed.node])
    assert _redrives_sent(world) == []

    told = _redriven(world, error_class="ValueError")
    assert [each["run_id"] for each in told["done"]] == [failed.plain]
    assert [each["run_id"] for each in told["refused"]] == [failed.node]
    assert (told["left"], told["refused"]) == (0, dry["refused"])
    assert failed.remedy in told["refused"][0]["why"]
    assert _redrives_sent(world) == [failed.plain]


def test_the_command_refuses_nodes_and_says_what_runs_them_again(
    world: DagApiWorld, failed: Failed, waterclock: Run
) -> None:
    for words in (("--job", "nightly", "--dry-run"), ("--job", "nightly", "--yes"), (failed.node,)):
        code, (card,), err = waterclock("dlq", "redrive", *words)
        assert (code, card["matched"], card["done"], card["refused"]) == (1, 1, 0, 1), words
        assert failed.remedy in err
    assert _redrives_sent(world) == []


def test_a_bulk_redrive_by_the_command_refuses_nodes_and_goes_on_with_runs(
    world: DagApiWorld, failed: Failed, waterclock: Run
) -> None:
    code, (card,), err = waterclock("dlq", "redrive", "--class", "ValueError", "--dry-run")
    assert (code, card["matched"], card["refused"]) == (1, 2, 1)
    assert "nothing was changed" in err
    assert _redrives_sent(world) == []

    code, (card,), err = waterclock("dlq", "redrive", "--class", "ValueError", "--yes")
    assert (code, card["done"], card["refused"], len(card["runs"])) == (1, 1, 1, 1)
    assert f"refused: {failed.node}: " in err
    assert failed.remedy in err
    assert _redrives_sent(world) == [failed.plain]


def test_a_node_whose_letter_the_topic_no_longer_has_is_refused_for_the_same_reason(
    world: DagApiWorld, waterclock: Run
) -> None:
    dag_run = world.dag_run("aged", [{"name": "load", "handler": "h"}])
    world.end(dag_run, "load", EventKind.ATTEMPT_FAILED)
    until(lambda: world.status_of(dag_run) == "FAILED")
    remedy = f"`waterclock dag rerun '{dag_run}' --failed`"
    assert remedy in _redriven(world, job="aged")["refused"][0]["why"]
    assert remedy in waterclock("dlq", "redrive", "--job", "aged", "--dry-run")[2]


def test_a_nodes_letter_stays_open_behind_a_rerun_until_it_is_discarded(
    world: DagApiWorld, failed: Failed, waterclock: Run
) -> None:
    made = world.client.post(f"{API}/dag-runs/{failed.dag_run}/rerun", json={"failed": True})
    assert made.status_code == 201, made.text
    world.end(made.json()["run_id"], "load")
    until(lambda: world.status_of(made.json()["run_id"]) == "SUCCEEDED")
    assert [line["run"] for line in waterclock("dlq", "list", "--job", "nightly")[1]] == [failed.node]

    code, (card,), _ = waterclock("dlq", "discard", failed.node)
    assert (code, card["done"]) == (0, 1)
    until(lambda: waterclock("dlq", "list", "--job", "nightly")[1] == [])
