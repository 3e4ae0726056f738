"""Short forms run beside other tests one at a time, and none begins while plays need all cores."""

from __future__ import annotations

import queue
import subprocess
from pathlib import Path

import pytest

from tests.acceptance import empty_servers, short_forms
from tests.acceptance.short_forms import ShortForms

_WITHIN_S, _WOULD_BEGIN_WITHIN_S = 20.0, 0.5


class _Runs:
    """Stands for ``subprocess.run``: tells which short form has begun, which ends when it is told to."""

    def __init__(self) -> None:
        self.begun: queue.Queue[str] = queue.Queue()
        self.may_end: queue.Queue[int] = queue.Queue()

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if empty_servers.__name__ in command:
            return subprocess.CompletedProcess(command, 0)
        self.begun.put(command[3])
        return subprocess.CompletedProcess(command, self.may_end.get(timeout=_WITHIN_S), "")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> _Runs:
    found = _Runs()
    monkeypatch.setattr(short_forms.subprocess, "run", found)
    return found


def test_one_at_a_time_until_somebody_asks(runs: _Runs) -> None:
    forms = ShortForms(["backfill", "creates", "overlap"])
    first = runs.begun.get(timeout=_WITHIN_S)
    assert runs.begun.empty()
    for code in (0, 7, 0):
        runs.may_end.put(code)
    assert forms.end_of(first).code == 0
    assert sorted(forms.end_of(name).code for name in ("backfill", "creates", "overlap")) == [0, 0, 7]
    forms.close()


def test_none_begins_while_plays_need_all_cores_and_one_that_runs_goes_on(runs: _Runs) -> None:
    forms = ShortForms(["backfill", "creates"])
    first = runs.begun.get(timeout=_WITHIN_S)
    with forms.waiting():
        runs.may_end.put(0)
        assert forms.end_of(first).code == 0
        with pytest.raises(queue.Empty):
            runs.begun.get(timeout=_WOULD_BEGIN_WITHIN_S)
    assert runs.begun.get(timeout=_WITHIN_S) != first
    runs.may_end.put(0)
    forms.close()


def test_a_stack_begins_with_a_copy_and_never_over_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, stack = tmp_path / "originals", tmp_path / "stack"
    (original / "kafka").mkdir(parents=True)
    (original / "kafka" / "VERSION").write_text("of the original")
    monkeypatch.delenv(empty_servers.ORIGINALS, raising=False)
    empty_servers.lay_out("kafka", stack)
    assert not (stack / "kafka").exists()
    monkeypatch.setenv(empty_servers.ORIGINALS, str(original))
    empty_servers.lay_out("cassandra", stack)
    assert not (stack / "cassandra").exists()
    empty_servers.lay_out("kafka", stack)
    (stack / "kafka" / "VERSION").write_text("of a broker that ran")
    empty_servers.lay_out("kafka", stack)
    assert (stack / "kafka" / "VERSION").read_text() == "of a broker that ran"
