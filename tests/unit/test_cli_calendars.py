"""``waterclock calendar`` over a store in memory: what is put, shown, refused and brought."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from waterclock.clock import ManualClock, SystemClock
from waterclock.commands import calendar, job, saving
from waterclock.commands.ordering import Obeyed
from waterclock.commands.output import Format
from waterclock.commands.passing import Passed
from waterclock.model.errors import Conflict, NotFound, RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.job import Command, CommandKind, Cron, JobSpec, JobStatus, JobVersion
from waterclock.model.timing import Timing
from waterclock.settings import Settings
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange, JobRow

JOB = "default:nightly"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore(ManualClock(SystemClock().now()))

    @contextmanager
    def opened(_settings: Settings) -> Iterator[Any]:
        yield store

    for module in (calendar, saving):
        monkeypatch.setattr(module, "open_store", opened)
    monkeypatch.setattr(calendar, "open_log", opened)
    monkeypatch.setattr(calendar, "here", Settings)
    return store


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    found: list[Command] = []

    def pass_on(_settings: Settings, _log: Any, commands: Sequence[Command], _rate_per_s: float) -> Passed:
        found.extend(commands)
        said = (Answered(each.command_id, 0, CommandVerdict.APPLIED, 6) for each in commands)
        return Passed({answer.command_id: answer for answer in said})

    monkeypatch.setattr(calendar, "pass_on", pass_on)
    return found


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def holidays(tmp_path: Path, day: str = "2026-12-25") -> Path:
    return written(tmp_path, "holidays.yaml", f"exclude:\n  days: [{day}]\n")


def save_job(store: MemoryStore) -> JobSpec:
    """As a dispatcher would keep it."""
    document = {"handler": "h", "cron": "0 9 * * *", "calendars": ["holidays"]}
    spec = saving.spec_here(Settings(), document, JOB, dry_run=False)
    now = SystemClock().now()
    version = JobVersion(JOB, 5, spec, JobStatus.ACTIVE, "ann", now, 0, 5, now, "create")
    store.apply([JobChange(JobRow(JOB, spec, JobStatus.ACTIVE, 5, 0, 5, now, now, 0, 1, now), version)])
    return spec


def test_a_calendar_is_put_listed_and_shown(
    store: MemoryStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calendar.put("holidays", holidays(tmp_path), None, False, Format.JSON)
    assert json.loads(capsys.readouterr().out)["definition"] == {"exclude": {"days": ["2026-12-25"]}}
    calendar.list_calendars("", Format.JSON)
    assert [line["calendar"] for line in json.loads(capsys.readouterr().out)] == ["holidays"]
    calendar.show("holidays", None, 20, Format.JSON)
    assert json.loads(capsys.readouterr().out)["days"] == 1
    calendar.put("holidays", holidays(tmp_path), None, False, Format.JSON)
    assert "no version was made" in capsys.readouterr().err


def test_a_dry_run_keeps_nothing(store: MemoryStore, tmp_path: Path) -> None:
    calendar.put("holidays", holidays(tmp_path), None, True, Format.JSON)
    assert store.calendars("default", ["holidays"]) == [None]


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.json", "{"), ("x.yaml", "a: [b"), ("x.yaml", "- 1"), ("x.json", '{"exclude": {"days": ["soon"]}}')],
)
def test_what_is_no_calendar_is_refused(store: MemoryStore, tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(RequestError):
        calendar.put("holidays", written(tmp_path, name, text), None, False, None)
    with pytest.raises(RequestError):
        calendar.put("holidays", tmp_path / "none.json", None, False, None)


def test_a_new_version_is_brought_to_the_jobs_that_use_it(
    store: MemoryStore, tmp_path: Path, sent: list[Command], capsys: pytest.CaptureFixture[str]
) -> None:
    calendar.put("holidays", holidays(tmp_path), None, False, None)
    spec = save_job(store)
    calendar.put("holidays", holidays(tmp_path, "2026-12-26"), None, False, None)
    (command,) = sent
    assert (command.kind, command.job_id, command.answer) == (CommandKind.CALENDAR, JOB, True)
    assert command.calendars[0].version > spec.timing.calendars[0].version
    assert "1 jobs use it, 1 were brought the version" in capsys.readouterr().err
    calendar.show("holidays", None, 20, Format.JSON)
    assert "(behind)" in json.loads(capsys.readouterr().out)["jobs"][0]


def test_a_calendar_in_use_is_not_deleted(store: MemoryStore, tmp_path: Path, sent: list[Command]) -> None:
    calendar.put("holidays", holidays(tmp_path), None, False, None)
    save_job(store)
    with pytest.raises(Conflict, match=JOB):
        calendar.delete("holidays", None, None)
    calendar.put("others", holidays(tmp_path), None, False, None)
    calendar.delete("others", None, None)
    with pytest.raises(NotFound):
        calendar.show("others", None, 20, None)


def test_another_version_than_was_expected_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    calendar.put("holidays", holidays(tmp_path), 0, False, None)
    with pytest.raises(Conflict):
        calendar.put("holidays", holidays(tmp_path, "2026-12-26"), 0, False, None)


def test_a_job_is_placed_at_the_terminal_as_well(store: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    jitter = {"window": "10s", "placement": "balanced"}
    document = {"handler": "h", "cron": "0 9 * * *", "jitter": jitter}
    spec = saving.spec_here(Settings(), document, JOB, dry_run=False)
    assert spec.timing.placed_us == 0
    assert "placed: 09:00:00 has none due" in capsys.readouterr().err
    plain = saving.spec_here(Settings(), {"handler": "h", "cron": "0 9 * * *"}, JOB, dry_run=False)
    assert replace(spec, timing=Timing()) == plain == JobSpec("h", Cron("0 9 * * *"))


def test_a_job_that_is_rolled_back_is_found_by_the_calendars_it_gets_back(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calendar.put("holidays", holidays(tmp_path), None, False, None)
    spec = save_job(store)
    store.forget_noted("default", "holidays", store.noted_jobs("default", "holidays", 9))
    assert store.noted_jobs("default", "holidays", 9) == []
    row = store.job(JOB)
    assert row is not None

    @contextmanager
    def opened(_settings: Settings) -> Iterator[Any]:
        yield store

    def ordered(_settings: Settings, _log: Any, _store: Any, command: Command) -> Obeyed:
        noted = [each.job_id for each in store.noted_jobs("default", "holidays", 9)]
        assert (command.kind, noted) == (CommandKind.ROLLBACK, [JOB]), "noted before the command is sent"
        return Obeyed(row, was_so=False)

    for name, patched in (("open_store", opened), ("open_log", opened), ("here", Settings), ("order", ordered)):
        monkeypatch.setattr(job, name, patched)
    job.rollback(JOB, 5, "", 0, Format.JSON)
    assert row.spec == spec


def test_a_placement_without_a_window_is_refused_and_not_passed_over() -> None:
    with pytest.raises(RequestError, match="needs its window"):
        CliRunner().invoke(
            job.app,
            ["create", "a", "--handler", "h", "--every", "1h", "--placement", "balanced", "--dry-run"],
            catch_exceptions=False,
        )
