"""How ``waterclock topics tail`` finds what was named: under the prefix first, else as it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.in_process import documents_of, run_command
from waterclock.clock import ManualClock
from waterclock.commands import topics
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Outgoing
from waterclock.settings import Settings
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
Tailed = Callable[..., tuple[int, list[tuple[str, str]], str]]


@pytest.fixture
def tailed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tailed:
    """Topics with one record each: (exit code, topic and key of each that was shown, stderr)."""
    made = {spec.name: spec.partitions for spec in topic_specs(NAMES, 2)}
    log = MemoryLog.alone(ManualClock(), made | {"acme-jobs": 1, "commands": 1})
    appender = log.appender()
    for topic in ("acme-jobs", "commands", NAMES.commands):
        appender.append(Outgoing(topic, topic.encode(), b"{}"))

    @contextmanager
    def opened(_: Settings) -> Iterator[Any]:
        yield log

    monkeypatch.setattr(topics, "open_log", opened)
    monkeypatch.setattr(topics, "here", Settings)

    def run(*words: str) -> tuple[int, list[tuple[str, str]], str]:
        code, out, err = run_command(monkeypatch, capsys, "topics", "tail", *words, "--no-follow", "-o", "jsonl")
        return code, [(each["topic"], each["key"]) for each in documents_of(out)], err

    return run


def test_a_topic_outside_the_prefix_is_read_by_its_whole_name(tailed: Tailed) -> None:
    assert tailed("acme-jobs") == (0, [("acme-jobs", "acme-jobs")], "")


def test_a_topic_of_ours_is_meant_where_two_have_the_name(tailed: Tailed) -> None:
    for name in ("commands", NAMES.commands):
        assert tailed(name) == (0, [(NAMES.commands, NAMES.commands)], "")


def test_a_topic_that_is_not_there_is_named_as_it_was_given(tailed: Tailed) -> None:
    code, _, err = tailed("acme-mail")
    assert code == 3
    assert "There is no topic acme-mail" in err
    assert "run-events" in err
