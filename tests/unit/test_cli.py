"""The command line without servers: what it loads, how it fails, what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock import cli
from waterclock.commands import connect, output
from waterclock.commands.failing import CommandFailed, ExitCode, told
from waterclock.log import kafka_lag
from waterclock.model.errors import BackendDown, Conflict, NotFound, RequestError
from waterclock.stack.following import _new_lines, follow_logs, last_lines
from waterclock.stack.state import StackState, write_state


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def waterclock(monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["waterclock", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_help_names_every_command_and_loads_none_of_what_they_need():
    program = (
        "import sys\n"
        "sys.argv = ['waterclock', '--help']\n"
        "from waterclock import cli\n"
        "try:\n    cli.main()\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'confluent_kafka', 'cassandra', 'pydantic', 'pydantic_settings', 'fastavro', 'croniter', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in ("job", "run", "worker", "cron", "topics", "lag", "init", "doctor", "up", "down", "status", "logs"):
        assert f" {name} " in done.stdout


@pytest.mark.parametrize(
    "words",
    [["job", "create"], ["run"], ["worker"], ["cron", "explain"], ["topics", "tail"], ["lag"], ["up"], ["down"]],
)
def test_every_command_explains_itself(waterclock, words):
    code, out, _ = waterclock(*words, "--help")
    assert code == 0
    assert "Usage: waterclock " + words[0] in out


def test_usage_errors_end_with_2_and_suggest(waterclock):
    code, _, err = waterclock("jbo")
    assert code == 2
    assert "Did you mean 'job'" in err
    assert waterclock("job", "list", "--limit", "0")[0] == 2
    assert waterclock("run", "list")[0] == 2


def test_no_stack_ends_with_1_and_names_the_next_command(waterclock):
    code, out, err = waterclock("status")
    assert (code, out) == (1, "")
    assert "No stack runs in" in err
    assert "`waterclock up`" in err


def test_a_log_that_is_not_there_ends_with_3(waterclock):
    assert waterclock("logs", "nobody")[0] == 3


def test_down_without_a_stack_is_no_failure(waterclock):
    code, _, err = waterclock("down", "--purge")
    assert code == 0
    assert "nothing was running" in err


def test_an_unreachable_store_ends_with_5_and_says_how_to_start_one(waterclock, monkeypatch):
    monkeypatch.setattr(connect, "_STORE_DEADLINE_S", 0.2)
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PORT", "1")
    code, out, err = waterclock("job", "list")
    assert (code, out) == (5, "")
    assert "No answer from cassandra" in err
    assert "waterclock up" in err


def test_a_stack_that_is_down_is_never_looked_for_on_ports_that_may_be_anothers(waterclock, monkeypatch):
    monkeypatch.setattr(connect, "_STORE_DEADLINE_S", 0.2)
    folder = Path(".waterclock")
    folder.mkdir()
    write_state(folder, StackState(1, "0", "stopped", 0.0, "127.0.0.1:9092", "127.0.0.1", 9042, ()))
    code, _, err = waterclock("job", "list")
    assert code == 5
    assert "The stack of this folder does not run" in err
    assert "waterclock up" in err
    monkeypatch.setenv("WATERCLOCK_KAFKA__BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PORT", "1")
    code, _, err = waterclock("job", "list")
    assert code == 5
    assert "No answer from cassandra" in err


def test_a_broker_that_does_not_answer_is_no_broker_without_groups(waterclock, monkeypatch):
    monkeypatch.setattr(kafka_lag, "TIMEOUT_S", 0.5)
    monkeypatch.setenv("WATERCLOCK_KAFKA__BOOTSTRAP", "127.0.0.1:1")
    code, out, err = waterclock("lag")
    assert (code, out) == (5, "")
    assert "No answer from kafka" in err


def test_a_worker_whose_module_is_not_there_ends_before_it_starts(waterclock):
    code, _, err = waterclock("worker", "nowhere:app", "--instance", "worker-9")
    assert code in (2, 3)
    assert "nowhere" in err


def test_a_wrong_setting_ends_with_2_and_names_the_file(waterclock):
    Path("waterclock.toml").write_text("[kafka]\nbootstraps = 'x'\n")
    code, _, err = waterclock("job", "list")
    assert code == 2
    assert "waterclock.toml" in err
    assert "Did you mean 'bootstrap'" in err


def test_cron_explain_speaks_words_warns_and_shows_the_clock_change(waterclock):
    code, out, err = waterclock(
        "cron",
        "explain",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--from",
        "2026-03-28T12:00:00Z",
        "-n",
        "2",
        "-o",
        "jsonl",
    )
    assert code == 0
    assert "At 02:30 (Europe/Berlin)" in err
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["utc"] == "2026-03-29T01:00:00Z"
    assert "clock change" in first["remark"]
    assert second["utc"] == "2026-03-30T00:30:00Z"


def test_a_wrong_expression_ends_with_2_and_says_where(waterclock):
    code, out, err = waterclock("cron", "explain", "61 2 * * *")
    assert (code, out) == (2, "")
    assert "/cron" in err


def test_a_dry_run_checks_the_job_and_needs_no_server(waterclock):
    code, out, err = waterclock(
        "job", "create", "hello", "--every", "5s", "--handler", "demo.ping", "--dry-run", "-o", "json"
    )
    assert code == 0
    document = json.loads(out)
    assert document["job"] == "default:hello"
    assert len(document["next_fires"]) == 10
    assert "nothing was sent" in err


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        (["--every", "5s"], "/handler"),
        (["--handler", "x", "--every", "5s", "--cron", "* * * * *"], "/every"),
        (["--handler", "x", "--every", "5"], "/every"),
        (["--handler", "x", "--at", "tomorrow"], "/at"),
        (["--handler", "x", "--every", "5s", "--tier", "urgent"], "/tier"),
    ],
)
def test_a_job_that_cannot_be_is_refused_before_anything_is_sent(waterclock, options, pointer):
    code, out, err = waterclock("job", "create", "hello", *options)
    assert (code, out) == (2, "")
    assert f"(at {pointer})" in err
    assert "try:" in err


def test_a_job_file_is_read_and_options_win(waterclock):
    Path("job.json").write_text('{"handler": "demo.ping", "every": "5s", "tier": "low"}')
    code, out, _ = waterclock("job", "create", "hello", "-f", "job.json", "--tier", "high", "--dry-run", "-o", "json")
    assert code == 0
    assert json.loads(out)["tier"] == "high"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError("x"), 2),
        (NotFound("x"), 3),
        (Conflict("x"), 4),
        (BackendDown("kafka", "x"), 5),
        (CommandFailed("x", hint="y", exit_code=ExitCode.TIMEOUT), 6),
        (CommandFailed("x", hint="y", exit_code=ExitCode.RUN_FAILED), 7),
    ],
)
def test_each_kind_of_failure_has_its_own_exit_code(error, code):
    assert told(error)[1] == code


def test_a_pipe_gets_json_lines_and_no_colour(waterclock):
    output.show_rows([{"a": 1, "b": b"\xff"}], ("a",), None)
    _, out, _ = waterclock("--version")
    assert out.splitlines()[0] == '{"a":1,"b":"<1 bytes>"}'


def test_table_cells_are_never_read_as_markup(capsys):
    output.show_rows([{"a": "[red]x[/red]"}], ("a",), output.Format.TABLE)
    assert "[red]x[/red]" in capsys.readouterr().out


def test_following_a_log_waits_for_whole_lines_and_survives_a_new_file(tmp_path):
    path = tmp_path / "worker-1.log"
    path.write_text("one\ntwo\n")
    assert last_lines(path, 1) == ["two"]
    lines = follow_logs({"worker-1": path})
    with path.open("a") as log:
        log.write("three\nfou")
    assert next(lines) == ("worker-1", "three")
    with path.open("a") as log:
        log.write("r\n")
    assert next(lines) == ("worker-1", "four")
    path.write_text("anew\n")
    assert next(lines) == ("worker-1", "anew")


def test_a_line_is_followed_however_long_it_is_and_ends_where_it_was_ended(tmp_path):
    path = tmp_path / "worker-1.log"
    path.touch()
    assert last_lines(path, 5) == []
    told = '{"event":"one\u2028line"}'
    path.write_text(f"{'x' * 400_000}\n{told}\n\nlast\n")
    at = {"worker-1": 0}
    found = [line for _ in range(3) for line in _new_lines(path, at, "worker-1")]
    assert "".join(found[:-3]) == "x" * 400_000
    assert found[-3:] == [told, "", "last"]
    assert last_lines(path, 3) == [told, "", "last"]
