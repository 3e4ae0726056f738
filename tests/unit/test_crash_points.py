"""The table of crash points, and the starter: each point stands somewhere, and kills at its visit and at no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from waterclock.retry_router.loop import RetryRouter

from tests.failpoints import visits
from tests.failpoints.points import BY_NAME, POINTS, ROLE_OF, Point, When
from tests.failpoints.run import _place, arm, keep_soon, watch
from tests.failpoints.visits import in_round, note_rounds
from waterclock.log.port import Outgoing
from waterclock.model.errors import RoundInDoubt
from waterclock.recorder.loop import Recorder
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names

_LEAST = {"dispatcher": 8, "workers": 8, "retry_router": 8, "recorder": 6, "intake": 3, "api": 2}


class Place:
    """Something to stand at."""

    flushed = 0

    def act(self, *args: Any) -> str:
        return f"acted {args}"

    def flush(self, _timeout_s: float) -> None:
        self.flushed += 1


@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_every_point_stands_at_something_that_exists(point: Point) -> None:
    owner, name = _place(point.place)
    assert callable(getattr(owner, name))


def test_every_role_has_its_points_and_every_point_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(POINTS) >= 30
    for role, least in _LEAST.items():
        assert sum(point.role == role for point in POINTS) >= least


def armed(when: When, visit: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, list[int]]:
    died: list[int] = []
    monkeypatch.setattr(Place, "act", Place.act)  # so that what is wrapped is put back
    point = Point("test.point", f"{__name__}:Place.act", when, "", lambda call: "visit" in call.args)
    arm(point, visit, lambda: died.append(1))
    return Place(), died


@pytest.mark.parametrize("when", list(When))
def test_it_dies_at_the_visit_that_it_was_armed_with(when: When, monkeypatch: pytest.MonkeyPatch) -> None:
    place, died = armed(when, 2, monkeypatch)
    place.act("visit")
    place.act("something else")
    assert died == []
    place.act("visit")
    assert died == [1]
    place.act("visit")
    assert died == [1]
    assert place.flushed == (when in {When.FLUSHED, When.SENT})


def test_whoever_comes_by_a_watched_point_is_told_once_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(Place, "act", Place.act)
    place = Place()
    watch(Point("test.point", f"{__name__}:Place.act", When.FLUSHED, "", lambda call: "visit" in call.args),
          lambda: told.append(1))  # fmt: skip
    place.act("something else")
    assert told == []
    assert place.act("visit") == place.act("visit") == "acted ('visit',)"
    assert told == [1]
    assert place.flushed == 0


def test_it_does_not_die_where_the_broker_has_not_all_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    place, died = armed(When.FLUSHED, 1, monkeypatch)
    flush = mock.Mock(side_effect=[RoundInDoubt("3 records were not acknowledged"), None])
    monkeypatch.setattr(place, "flush", flush)
    with pytest.raises(RoundInDoubt):
        place.act("visit")
    assert died == []
    place.act("visit")  # the role's next round
    assert died == [1]


def test_a_round_is_known_by_its_role_and_by_what_it_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, bool] = {}

    def look(_self: Rounds, _producer: object, _draft: Round, _early: object) -> None:
        for role, carrying in (("dispatcher", ""), ("dispatcher", ".dlq"), ("worker", ""), ("dispatcher", "run.work")):
            seen[f"{role} {carrying}"] = in_round(role, carrying)(None)  # type: ignore[arg-type]
        seen["dispatcher"] = in_round("dispatcher")(None)  # type: ignore[arg-type]

    monkeypatch.setattr(Rounds, "_send", look)
    note_rounds()
    rounds, draft = Rounds(mock.Mock(), "waterclock.dispatcher.one"), Round(0)
    draft.append(Outgoing("waterclock.runs.high", b"k", b"v", (("ce_type", b"io.waterclock.run.work"),)))
    rounds._send(None, draft, ())  # type: ignore[arg-type]
    assert seen == {
        "dispatcher ": True,
        "dispatcher .dlq": False,
        "worker ": False,
        "dispatcher run.work": True,
        "dispatcher": True,
    }
    rounds._send(None, Round(0), ())  # type: ignore[arg-type]
    assert [what for what, counts in seen.items() if counts] == ["dispatcher"]  # it commits nothing but positions
    assert not in_round("dispatcher")(None)  # type: ignore[arg-type]


def test_a_process_notes_its_point_and_ends_by_sigkill(tmp_path: Path) -> None:
    notes = tmp_path / "crashes.jsonl"
    code = (
        "from tests.failpoints.points import BY_NAME\n"
        "from tests.failpoints.run import _kill_self\n"
        "_kill_self(BY_NAME['dispatcher.before-init'])"
    )
    env = {**os.environ, "FAILPOINT_NOTES": str(notes)}
    ended = subprocess.run([sys.executable, "-c", code], env=env, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert json.loads(notes.read_text())["point"] == "dispatcher.before-init"


@pytest.mark.parametrize("core", ["router", "recorder"])
def test_a_point_of_kept_runs_is_one_of_the_state_topic(core: str) -> None:
    role = ROLE_OF[core]
    round_ = Round(0)
    round_.append(Outgoing(Names("waterclock").state(role), b"k", b"v"))
    with mock.patch.object(
        visits._under_way, "round", (f"waterclock.{role.replace('_', '-')}.one", round_), create=True
    ):
        for when in ("kept-before-commit", "kept-landed"):
            assert BY_NAME[f"{core}.{when}"].only(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["retry_router", "recorder"])
def test_roles_that_are_struck_keep_open_runs_after_few_records(role: str) -> None:
    loop: Any = RetryRouter if role == "retry_router" else Recorder
    with mock.patch.object(loop.__init__, "__kwdefaults__", loop.__init__.__kwdefaults__.copy()):
        keep_soon(role)
        assert loop.__init__.__kwdefaults__["kept_behind"] == 20
    assert loop.__init__.__kwdefaults__["kept_behind"] > 10_000
