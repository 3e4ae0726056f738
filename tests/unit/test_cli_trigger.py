"""``waterclock job trigger``: what became of the run is told by the answer, never by history, which may lag."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.unit.api_world import ApiWorld
from tests.unit.in_process import Run, on_ports_of
from waterclock.commands import job, watching

JOB = "default:pay"


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    """Nobody records yet: history knows of no run."""
    with ApiWorld() as world:
        yield world


@pytest.fixture
def waterclock(world: ApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(watching, "SEEN_WITHIN_S", 0.1)
    return on_ports_of(world, monkeypatch, capsys, job)


def test_a_run_that_was_dropped_is_said_and_ends_with_7(world: ApiWorld, waterclock: Run) -> None:
    world.create(name="pay", every="12h", overlap="skip")
    code, (first,), err = waterclock("job", "trigger", "pay")
    assert code == 0
    assert f"next: waterclock run show '{first['run']}'" in err
    for words in ((), ("--wait", "30s")):
        code, (second,), err = waterclock("job", "trigger", "pay", *words)
        assert (code, second["skipped"]) == (7, "overlap")
        assert second["run"].startswith(f"{JOB}@")
        assert second["run"] != first["run"]
        assert f"{second['run']} was dropped" in err
        assert "next:" not in err


def test_a_run_that_waits_for_others_is_said_to_and_ends_with_0(world: ApiWorld, waterclock: Run) -> None:
    world.create(name="pay", every="12h", overlap="sequential")
    assert "held" not in waterclock("job", "trigger", "pay")[1][0]
    code, (second,), err = waterclock("job", "trigger", "pay")
    assert (code, second["held"]) == (0, "overlap")
    assert "history does not show it yet" in err


def test_a_wait_has_one_deadline_also_where_history_shows_the_run_late(
    world: ApiWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(name="pay", every="12h")
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        if now_s >= 8.0 and world.recorder is None:
            world.make_recorder()
            give_up_at = time.monotonic() + 10
            while not world.store.runs(JOB, 1) and time.monotonic() < give_up_at:
                time.sleep(0.01)

    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    code, (card,), err = waterclock("job", "trigger", "pay", "--wait", "10s")
    assert code == 6
    assert f"{card['run']} has not ended within 10 s: PENDING" in err
    assert now_s == pytest.approx(10.0, abs=0.3)


def test_a_wait_that_history_never_shows_asks_after_the_recorder(
    world: ApiWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(name="pay", every="12h")
    code, (card,), err = waterclock("job", "trigger", "pay", "--wait", "1s")
    assert (code, card["job"]) == (6, JOB)
    assert "history does not show it yet" in err
    assert "waterclock lag" in err
