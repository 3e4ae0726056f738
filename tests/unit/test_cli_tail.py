"""``topics tail``: whoever may write a record does not steer the terminal of whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import orjson
import pytest

from tests.unit.dispatcher_world import NAMES, World
from tests.unit.in_process import run_command
from waterclock.commands import topics
from waterclock.log.port import Outgoing
from waterclock.settings import Settings

TITLE = "\x1b]0;pay up\x07\x1b[2J"


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Appends a record to job-events and shows it: what is printed."""
    world = World()
    capsys.readouterr()  # what its dispatcher logged
    monkeypatch.setattr(topics, "here", Settings)
    monkeypatch.setattr(topics, "open_log", lambda _: nullcontext(world.outside))

    def shown(key: bytes, value: dict[str, Any], *words: str) -> str:
        appender = world.outside.appender()
        appender.append(Outgoing(NAMES.job_events, key, orjson.dumps(value)))
        appender.flush(1.0)
        appender.close()
        code, out, _ = run_command(monkeypatch, capsys, "topics", "tail", "job-events", "--no-follow", *words)
        assert code == 0
        return out

    return shown


def test_a_strangers_record_does_not_steer_the_terminal(tail: Callable[..., str]) -> None:
    (line,) = tail(b"a\x1b[31m\nkey", {"note": f"{TITLE}\nnext\u202e"}).splitlines()
    assert line.isprintable()
    assert r"a\x1b[31m\x0akey" in line
    assert r"note=\x1b]0;pay up\x07\x1b[2J\x0anext\u202e" in line


def test_as_json_lines_a_record_is_told_exactly(tail: Callable[..., str]) -> None:
    (line,) = tail(b"key", {"note": TITLE}, "-o", "jsonl").splitlines()
    assert line.isprintable()
    assert orjson.loads(line)["value"] == {"note": TITLE}


def test_a_detail_that_is_no_object_is_shown_like_any_other_part(tail: Callable[..., str]) -> None:
    (line,) = tail(b"key", {"detail": "x", "note": ["y"]}).splitlines()
    assert line.endswith("detail=x note=['y']")
