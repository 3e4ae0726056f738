"""``waterclock job import``: shown first, written or sent when asked, on ports in memory with a dispatcher behind."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api_world import ApiWorld
from tests.unit.in_process import documents_of, run_command
from waterclock.commands import importing
from waterclock.commands.output import Format
from waterclock.settings import Settings

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]

CRONTAB = "0 3 * * * /usr/bin/nightly --full\n*/5 * * * * /usr/bin/poll\n"


@pytest.fixture(scope="module")
def world() -> Iterator[ApiWorld]:
    with ApiWorld() as world:
        yield world


@pytest.fixture(autouse=True)
def crontab_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "crontab"
    file.write_text(CRONTAB, encoding="utf-8")
    return file


@pytest.fixture
def waterclock(world: ApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: (exit code, documents on stdout, stderr)."""

    @contextmanager
    def log(_: Settings) -> Iterator[Any]:
        yield world.services.log

    monkeypatch.setattr(importing, "here", lambda: world.settings)
    monkeypatch.setattr(importing, "open_log", log)

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        code, out, err = run_command(monkeypatch, capsys, *words)
        return code, documents_of(out), err

    return run


def test_an_import_shows_what_it_would_make_and_sends_nothing(world: ApiWorld, waterclock: Run) -> None:
    commands = world.records("waterclock.commands")
    code, documents, err = waterclock("job", "import", "crontab", "crontab", "--tz", "Europe/Berlin")
    assert code == 0
    assert [document["cron"] for document in documents] == ["0 3 * * *", "*/5 * * * *"]
    assert "nothing was sent" in err
    assert "shell.enabled = true" in err
    assert world.records("waterclock.commands") == commands


def test_a_person_sees_a_table_with_lines(waterclock: Run, capsys: pytest.CaptureFixture[str]) -> None:
    importing._show(importing.Found((), ()), Format.TABLE)
    importing.crontab("crontab", tz="UTC", output=Format.TABLE)
    out = capsys.readouterr().out
    assert "cron 0 3 * * * UTC" in out
    assert "/usr/bin/nightly --full" in out


def test_what_is_left_out_is_told_with_file_and_line_and_ends_with_1(crontab_file: Path, waterclock: Run) -> None:
    crontab_file.write_text(CRONTAB + "@reboot /usr/bin/start\n", encoding="utf-8")
    code, documents, err = waterclock("job", "import", "crontab", "crontab")
    assert (code, len(documents)) == (1, 2)
    assert "crontab:3: left out: @reboot /usr/bin/start: @reboot is not accepted" in err
    assert "Entries left out: 1; that make a job: 2" in err


def test_documents_that_were_written_can_be_created_one_by_one(waterclock: Run) -> None:
    code, rows, _ = waterclock("job", "import", "crontab", "crontab", "--out", "jobs", "--pool", "cron")
    assert code == 0
    code, (card,), _ = waterclock("job", "create", "-f", rows[0]["file"], "--dry-run")
    assert code == 0
    assert card["job"] == "default:" + Path(rows[0]["file"]).stem
    assert (card["pool"], card["cron"]) == ("cron", "0 3 * * *")


def test_importing_again_changes_nothing_and_an_edit_changes_one(
    world: ApiWorld, crontab_file: Path, waterclock: Run
) -> None:
    words = ("job", "import", "crontab", "crontab", "--create", "--yes")
    assert waterclock(*words)[1] == [{"jobs": 2, "defined": 2, "unchanged": 0, "refused": 0}]
    assert waterclock(*words)[1] == [{"jobs": 2, "defined": 0, "unchanged": 2, "refused": 0}]
    crontab_file.write_text(CRONTAB.replace("0 3", "0 4"), encoding="utf-8")
    assert waterclock(*words)[1] == [{"jobs": 2, "defined": 1, "unchanged": 1, "refused": 0}]
    listed = world.client.get("/api/v1/jobs").json()["jobs"]
    assert sorted(each["cron"] for each in listed) == ["*/5 * * * *", "0 4 * * *"]


def test_creating_is_asked_for_first(world: ApiWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    commands = world.records("waterclock.commands")
    code, _, err = waterclock("job", "import", "crontab", "crontab", "--create")
    assert code == 2
    assert "Define 2 jobs in tenant default?" in err
    assert world.records("waterclock.commands") == commands


def test_a_pool_without_topics_is_refused_before_anything_is_sent(world: ApiWorld, waterclock: Run) -> None:
    commands = world.records("waterclock.commands")
    code, _, err = waterclock("job", "import", "crontab", "crontab", "--create", "--yes", "--pool", "nowhere")
    assert code == 3
    assert "There is no pool 'nowhere'" in err
    assert world.records("waterclock.commands") == commands


def test_an_import_that_cannot_be_read_says_why(tmp_path: Path, waterclock: Run) -> None:
    (tmp_path / "latin").write_bytes(b"# ok\n0 3 * * * /bin/x \xe4\n")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"#")
    assert "latin is not UTF-8, line 2" in waterclock("job", "import", "crontab", "latin")[2]
    assert "more than 1048576 bytes" in waterclock("job", "import", "crontab", "large")[2]
    for words in (["nowhere"], ["crontab", "--tz", "Mars/Base"], ["crontab", "--form", "odd"],
                  ["crontab", "--out", "x", "--create"]):  # fmt: skip
        code, documents, err = waterclock("job", "import", "crontab", *words)
        assert (code, documents) == (2, [])
        assert "try:" in err


def test_the_three_forms_are_read(tmp_path: Path, waterclock: Run) -> None:
    (tmp_path / "beat.py").write_text("beat_schedule = {'a': {'task': 't', 'schedule': 60}}", encoding="utf-8")
    (tmp_path / "beat.json").write_text('{"a": {"task": "t", "schedule": 60}}', encoding="utf-8")
    folder = Path(__file__).resolve().parent / "importing"
    for file in ("beat.py", "beat.json"):
        code, documents, _ = waterclock("job", "import", "celery", file, "--tier", "low")
        assert (code, documents) == (0, [{"name": "a", "handler": "t", "every": "1m", "retry": False, "tier": "low"}])
    code, documents, _ = waterclock("job", "import", "kubernetes", str(folder / "cronjobs.yaml"))
    assert (code, len(documents)) == (1, 4)
