"""Short forms begin when they are asked for, and beside other tests one at a time."""

from __future__ import annotations

import queue
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
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


def test_one_at_a_time_beside_other_tests_and_more_once_these_are_done(
    runs: _Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_forms, "_LOOKS_EVERY_S", 0.01)
    are_others_at_work = threading.Event()
    are_others_at_work.set()
    forms = ShortForms(["backfill", "creates", "overlap"], beside_others=are_others_at_work.is_set)
    assert runs.begun.empty()
    with ThreadPoolExecutor() as asking:
        asked = asking.submit(forms.end_of, "creates")
        begun = [runs.begun.get(timeout=_WITHIN_S)]
        with pytest.raises(queue.Empty):
            runs.begun.get(timeout=_WOULD_BEGIN_WITHIN_S)
        are_others_at_work.clear()
        begun.append(runs.begun.get(timeout=_WITHIN_S))
        for code in (7, 7, 7):
            runs.may_end.put(code)
        assert asked.result(_WITHIN_S).code == 7
    begun.append(runs.begun.get(timeout=_WITHIN_S))
    assert sorted(begun) == ["backfill", "creates", "overlap"]
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
