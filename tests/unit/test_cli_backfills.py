"""``waterclock backfill`` over a store in memory: what is counted, asked for, shown and turned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from waterclock.clock import ManualClock, SystemClock
from waterclock.commands import backfill
from waterclock.commands.passing import Passed
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import Answered, CommandVerdict
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Cron, JobSpec, JobStatus, JobVersion, Pause, Tier
from waterclock.model.time_text import format_rfc3339
from waterclock.settings import Settings
from waterclock.store.backfill_port import BackfillRow
from waterclock.store.memory import MemoryStore
from waterclock.store.port import History, JobChange, JobRow

JOB = "default:nightly"
HOUR_US = 3_600 * US_PER_S
NOW = SystemClock().now() // HOUR_US * HOUR_US
ID = f"{JOB}~4711"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore(ManualClock(SystemClock().now()))

    @contextmanager
    def opened(_settings: Settings) -> Iterator[Any]:
        yield store

    monkeypatch.setattr(backfill, "open_store", opened)
    monkeypatch.setattr(backfill, "open_log", opened)
    monkeypatch.setattr(backfill, "here", Settings)
    spec = JobSpec("h", Cron("0 * * * *"))
    save(store, spec)
    return store


def save(store: MemoryStore, spec: JobSpec, pause: Pause | None = None) -> None:
    now = SystemClock().now()
    status = JobStatus.PAUSED if pause else JobStatus.ACTIVE
    version = JobVersion(JOB, 5, spec, status, "ann", now, 0, 5, now, "create", pause=pause)
    store.apply([JobChange(JobRow(JOB, spec, status, 5, 0, 5, now, now, 0, 1, now, pause), version)])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    found: list[Command] = []

    def pass_on(_settings: Settings, _log: Any, commands: Sequence[Command], _rate_per_s: float) -> Passed:
        found.extend(commands)
        said = (Answered(each.command_id, 7, CommandVerdict.APPLIED, 0, each.backfill_id or ID) for each in commands)
        return Passed({answer.command_id: answer for answer in said})

    monkeypatch.setattr(backfill, "pass_on", pass_on)
    return found


def told(status: BackfillStatus = BackfillStatus.RUNNING) -> Backfilled:
    fires = {"fire_count": 9, "made_count": 3, "left_count": 1, "blocked_count": 0}
    ends = {"succeeded_count": 1, "failed_count": 1, "cancelled_count": 0}
    said = {"actor": "ann", "note": "", "reason": ""}
    return Backfilled(
        number=4711,
        seq=3,
        status=status,
        from_at=NOW - 9 * HOUR_US,
        to_at=NOW,
        position_at=NOW - 6 * HOUR_US,
        revision=5,
        tier=Tier.LOW,
        concurrency=2,
        ready_at=NOW,
        asked_at=NOW,
        began_at=NOW,
        **fires,
        **ends,
        **said,
    )


def run(*words: str) -> Any:
    return CliRunner().invoke(backfill.app, [*words, "-o", "json"], catch_exceptions=False)


def test_a_dry_run_counts_what_has_run_and_sends_nothing(store: MemoryStore, sent: list[Command]) -> None:
    asked = ("--from", format_rfc3339(NOW - 9 * HOUR_US), "--to", format_rfc3339(NOW))
    found = json.loads(run("create", "nightly", *asked, "--dry-run").stdout)
    assert (found["fires"], found["would_run"], found["dry_run"]) == (9, 9, True)
    assert sent == []
    assert store.backfills("default", 10) == []


def test_it_is_asked_for_with_all_that_was_said(store: MemoryStore, sent: list[Command]) -> None:
    assert store.job(JOB) is not None
    asked = ("--from", format_rfc3339(NOW - 9 * HOUR_US), "--to", format_rfc3339(NOW))
    result = run("create", "nightly", *asked, "--tier", "high", "--concurrency", "3", "--note", "lost")
    (command,) = sent
    assert (command.kind, command.job_id, command.answer) == (CommandKind.BACKFILL, JOB, True)
    assert (command.from_at, command.to_at) == (NOW - 9 * HOUR_US, NOW)
    assert (command.tier, command.concurrency, command.note) == (Tier.HIGH, 3, "lost")
    assert json.loads(result.stdout)["backfill"] == ID


def test_what_stands_is_listed_and_shown_with_what_is_left(store: MemoryStore) -> None:
    store.record(History(backfills=[BackfillRow(JOB, told(), NOW)])).wait(1.0)
    (line,) = json.loads(run("list").stdout)
    assert (line["backfill_id"], line["status"], line["open"], line["remaining"]) == (ID, "RUNNING", 1, 5)
    assert json.loads(run("show", "nightly~4711").stdout)["left_out"] == 1
    assert json.loads(run("list", "--job", "other").stdout) == []


def put(store: MemoryStore, number: int, status: BackfillStatus, job_id: str = JOB) -> str:
    store.record(History(backfills=[BackfillRow(job_id, told(status)._replace(number=number), NOW)])).wait(1.0)
    return f"{job_id}~{number}"


def ids_of(result: Any) -> list[str]:
    return [line["backfill_id"] for line in json.loads(result.stdout)]


def test_one_that_is_open_is_found_behind_any_number_that_have_ended(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "_LISTED_MAX", 4)
    for number in range(20, 29):
        put(store, number, BackfillStatus.DONE)
    running, elsewhere = put(store, 2, BackfillStatus.RUNNING), put(store, 3, BackfillStatus.PAUSED, "default:alone")
    result = run("list", "--open", "--limit", "2")
    assert (sorted(ids_of(result)), result.stderr) == (sorted([running, elsewhere]), "")
    put(store, 29, BackfillStatus.RUNNING)
    assert ids_of(run("list", "--job", "nightly", "--open", "--limit", "1")) == [f"{JOB}~29"]


def test_a_list_of_backfills_that_was_cut_or_holds_none_says_so(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there are none" in run("list", "--open").stderr
    for number in range(20, 25):
        put(store, number, BackfillStatus.DONE)
    assert "none is open, 5 have ended" in run("list", "--open").stderr
    assert "there are none" in run("list", "--job", "other", "--open").stderr
    result = run("list", "--limit", "3")
    assert len(ids_of(result)) == 3
    assert "there are more" in result.stderr
    assert run("list", "--limit", "5").stderr == ""
    monkeypatch.setattr(backfill, "_LISTED_MAX", 2)
    monkeypatch.setattr(backfill, "_LOOKED_AT_MAX", 4)
    assert "only 4 were looked at" in run("list", "--open", "--limit", "2").stderr
    assert "only 2 were looked at" in run("list", "--job", "nightly", "--open", "--limit", "2").stderr


def test_one_that_reaches_into_a_pause_says_what_it_waits_for(store: MemoryStore) -> None:
    row = store.job(JOB)
    assert row is not None
    store.record(History(backfills=[BackfillRow(JOB, told(BackfillStatus.WAITING), NOW)])).wait(1.0)
    assert "waits_for" not in json.loads(run("show", ID).stdout)
    save(store, row.spec, Pause("ann", "", NOW))
    assert "paused" in json.loads(run("show", ID).stdout)["waits_for"]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("pause", CommandKind.PAUSE_BACKFILL),
        ("resume", CommandKind.RESUME_BACKFILL),
        ("cancel", CommandKind.CANCEL_BACKFILL),
    ],
)
def test_it_is_turned_by_a_command_of_its_own(
    store: MemoryStore, sent: list[Command], word: str, kind: CommandKind
) -> None:
    store.record(History(backfills=[BackfillRow(JOB, told(), NOW)])).wait(1.0)
    run(word, ID, "--note", "why")
    (command,) = sent
    assert (command.kind, command.job_id, command.backfill_id, command.note) == (kind, JOB, ID, "why")


def test_what_is_not_there_is_refused(store: MemoryStore, sent: list[Command]) -> None:
    assert store.job("default:nobody") is None
    with pytest.raises(NotFound):
        run("show", f"{JOB}~99")
    with pytest.raises(NotFound):
        run("create", "nobody", "--from", format_rfc3339(NOW - HOUR_US))
    with pytest.raises(RequestError):
        run("create", "nightly", "--from", format_rfc3339(NOW - HOUR_US), "--tier", "urgent")
    with pytest.raises(RequestError):
        run("show", "no id at all")
    assert sent == []
