"""The data folder of a local stack: what is deleted with it, and what is told where it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from waterclock.commands.failing import CommandFailed
from waterclock.commands.stack import _detach
from waterclock.model.errors import Conflict
from waterclock.settings import load_settings
from waterclock.stack.demo_stack import DemoStack
from waterclock.stack.down import purge, stop_stack
from waterclock.stack.state import StackState, birth_of, sole_owner, write_state
from waterclock.stack.trouble import StackTrouble
from waterclock.stack.up import Up


@pytest.mark.parametrize("name", ["kafka", "state.json"])
def test_purge_spares_a_folder_that_only_has_a_name_in_common_with_ours(tmp_path, name):
    (tmp_path / name).mkdir()  # as a home in which somebody has unpacked Kafka
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(StackTrouble, match=r"holds thesis\.txt\): nothing deleted"):
        purge(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_purge_deletes_what_a_start_has_left_that_did_not_come_far(tmp_path):
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True)
    (data / "lock").touch()
    assert purge(data)
    assert not data.exists()


def test_purge_of_a_file_is_told_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StackTrouble, match="no folder"):
        purge(tmp_path / "file")


@pytest.mark.parametrize(
    "start", [lambda folder: Up(load_settings({"stack": {"data_dir": folder}}), str).run(), _detach]
)
def test_a_folder_that_cannot_be_made_is_told_with_what_else_to_do(tmp_path, start):
    (tmp_path / "file").touch()
    with pytest.raises(StackTrouble, match="file/data cannot hold a stack: Not a directory") as told:
        start(tmp_path / "file" / "data")
    assert "--data-dir" in told.value.hint


def test_the_demo_tells_it_as_well(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StackTrouble, match="cannot hold a stack"):
        DemoStack(tmp_path / "file" / "data", str)


def test_a_start_beside_a_stack_that_runs_leaves_the_words_of_its_supervisor_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["waterclock", "up", "-d", "--data-dir", str(tmp_path)])
    words = tmp_path / "logs" / "supervisor.log"
    words.parent.mkdir()
    words.write_text("kafka is in a crash loop\n")
    with sole_owner(tmp_path), pytest.raises((Conflict, CommandFailed), match="already"):
        _detach(tmp_path)
    assert words.read_text() == "kafka is in a crash loop\n"


@pytest.mark.parametrize("said", ["-d", "-dd", "--detach"])
def test_what_is_detached_detaches_nothing_itself(tmp_path, monkeypatch, said):
    started = []

    class Ended:
        def __init__(self, words: list[str], **_: object) -> None:
            started.append(words)

        def poll(self) -> int:
            return 1

    monkeypatch.setattr(sys, "argv", ["waterclock", "up", said, "--workers", "3"])
    monkeypatch.setattr(subprocess, "Popen", Ended)
    with pytest.raises(CommandFailed):
        _detach(tmp_path)
    assert started == [[sys.executable, "-m", "waterclock.cli", "up", "--workers", "3"]]


@pytest.mark.parametrize(("error", "ends"), [(PermissionError, None), (ProcessLookupError, True)])
def test_stopping_tells_of_another_users_stack_and_bears_one_that_has_just_ended(tmp_path, monkeypatch, error, ends):
    me = os.getpid()
    write_state(tmp_path, StackState(me, birth_of(me), "ready", 0.0, "127.0.0.1:1", "127.0.0.1", 2, ()))

    def refuse(*_: int) -> None:
        raise error

    monkeypatch.setattr("waterclock.stack.down.os.kill", refuse)
    if ends:
        assert stop_stack(tmp_path)
        return
    with pytest.raises(StackTrouble, match=f"pid {me}.* belongs to another user"):
        stop_stack(tmp_path)


def test_a_stack_that_has_not_written_its_state_yet_is_told_and_never_by_the_pid_of_the_last_one(tmp_path):
    write_state(tmp_path, StackState(os.getpid(), "long ago", "ready", 0.0, "127.0.0.1:1", "127.0.0.1", 2, ()))
    assert not stop_stack(tmp_path)
    with sole_owner(tmp_path):
        for asked in (stop_stack, purge):
            with pytest.raises(Conflict, match="just starting") as told:
                asked(tmp_path)
            assert str(os.getpid()) not in str(told.value)
