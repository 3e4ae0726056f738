"""A job's past at the terminal, over a store in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from waterclock.clock import ManualClock
from waterclock.commands import bulk, versions
from waterclock.commands.failing import CommandFailed
from waterclock.commands.output import Format
from waterclock.commands.passing import Passed
from waterclock.log.port import Ticket
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.job import Command, Every, JobSpec, JobStatus, JobVersion, Pause, Tier
from waterclock.settings import Settings
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange, JobRow

OLD = JobSpec("demo.ping", Every(600_000_000), payload=b'{"a":1}')
NEW = replace(OLD, schedule=Every(1_200_000_000), tier=Tier.HIGH)
JOB = "default:told"


@pytest.fixture
def store() -> MemoryStore:
    clock = ManualClock()
    store, now = MemoryStore(clock), clock.now()
    pause = Pause("bob", "the bank is shut", now, now + 3_600_000_000)
    made = [
        JobVersion(JOB, 5, OLD, JobStatus.ACTIVE, "ann", now, now, 5, now, "create"),
        JobVersion(JOB, 7, NEW, JobStatus.ACTIVE, "ann", now + 1, now, 7, now, "update", "quicker"),
        JobVersion(JOB, 9, NEW, JobStatus.PAUSED, "bob", now + 2, now, 7, now, "pause", "the bank is shut", pause),
    ]
    for version in made:
        row = JobRow(JOB, version.spec, version.status, version.revision, now, 5, now, now, 0, 1, version.stamp_at)
        store.apply([JobChange(row, version)])
    return store


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_the_history_lists_versions_newest_first(store: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    versions.show_history(store, JOB, 2, None, Format.JSON)
    out = capsys.readouterr()

    assert [(row["revision"], row["action"], row["actor"], row["note"]) for row in json.loads(out.out)] == [
        (9, "pause", "bob", "the bank is shut"),
        (7, "update", "ann", "quicker"),
    ]
    assert "--below 7" in out.err
    with pytest.raises(NotFound):
        versions.show_history(store, "default:nobody", 2, None, Format.JSON)


def test_a_diff_is_between_two_versions_or_of_the_newest(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    versions.show_diff(store, JOB, 5, 7, Format.JSON)
    assert [(row["field"], row["before"], row["after"]) for row in printed(capsys)] == [
        ("/every", "10m", "20m"),
        ("/tier", "medium", "high"),
    ]
    versions.show_diff(store, JOB, None, None, Format.JSON)
    assert [row["field"] for row in printed(capsys)] == ["(status)"]
    with pytest.raises(NotFound):
        versions.show_diff(store, JOB, 6, 7, Format.JSON)


def test_a_pause_is_told_in_one_line() -> None:
    at = 1_795_000_000_000_000
    assert versions.pause_card(None) is None
    line = versions.pause_card(Pause("bob", "the bank is shut", at, at + 3_600_000_000))
    assert line is not None
    assert line.startswith("by bob since 2026-11-18T")
    assert line.endswith(": the bank is shut")
    assert ", until 2026-11-18T" in line


@pytest.mark.parametrize(("tiers", "statuses", "prefix"), [(["urgent"], [], ""), ([], ["deleted"], ""), ([], [], "")])
def test_a_bulk_change_says_which_jobs_or_is_refused(tiers: list[str], statuses: list[str], prefix: str) -> None:
    with pytest.raises(RequestError):
        bulk._wanted(bulk.Action.PAUSE, prefix, tiers, "", statuses)


def test_where_a_bulk_change_ended_is_read_back() -> None:
    assert bulk.place_in("") is None
    assert bulk.place_in("17|a:b") == (17, "a:b")
    for text in ("x|a:b", "17", "17|", "9" * 19 + "|a:b"):
        with pytest.raises(RequestError):
            bulk.place_in(text)


def test_a_bulk_change_that_is_broken_off_says_how_to_go_on_with_what_was_not_sent(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = store.job(JOB).created_at  # type: ignore[union-attr]
    for number in range(4):
        job_id, at = f"default:crowd{number}", now - 10 - number
        version = JobVersion(job_id, 11, OLD, JobStatus.ACTIVE, "ann", at, at, 11, at, "create")
        store.apply([JobChange(JobRow(job_id, OLD, version.status, 11, at, 11, at, at, 0, 1, at), version)])

    def broken_off(_settings: object, _log: object, commands: Sequence[Command], _rate: float) -> Passed:
        return Passed({}, {each.command_id: standing_ticket() for each in commands[:2]}, "kafka: away")

    monkeypatch.setattr(bulk, "open_store", lambda _: nullcontext(store))
    monkeypatch.setattr(bulk, "open_log", lambda _: nullcontext(None))
    monkeypatch.setattr(bulk, "here", Settings)
    monkeypatch.setattr(bulk, "pass_on", broken_off)
    with pytest.raises(CommandFailed, match="2 were not sent: those behind default:crowd1"):
        bulk.bulk(bulk.Action.TRIGGER, prefix="crowd", cap=4, rate=100.0, apply=True)
    assert f"--after '{now - 11}|default:crowd1'" in capsys.readouterr().err


def standing_ticket() -> Ticket:
    ticket = Ticket()
    ticket.partition, ticket.offset = 0, 1
    return ticket
