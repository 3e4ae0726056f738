"""``waterclock run cancel`` and ``waterclock dlq`` on ports in memory, with a dispatcher and a recorder behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api_world import until
from tests.unit.failing_world import API, FailingWorld
from tests.unit.in_process import Run, on_ports_of
from waterclock.commands import cancel, dlq
from waterclock.commands.failing import CommandFailed, told
from waterclock.commands.output import Format, say, show_one
from waterclock.dead_letters.acting import TRIES_MAX


@pytest.fixture(scope="module")
def world() -> Iterator[FailingWorld]:
    with FailingWorld() as world:
        yield world


@pytest.fixture
def waterclock(world: FailingWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return on_ports_of(world, monkeypatch, capsys, cancel, dlq)


def test_runs_are_cancelled_by_name_and_those_that_ended_are_said_to_have(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="named")
    waiting, failed = world.triggered("named"), world.given_up("named")
    until(lambda: world.status_of(waiting) == "PENDING")
    code, (card,), err = waterclock("run", "cancel", waiting, failed)

    assert (code, card["matched"], card["requested"]) == (0, 2, 1)
    assert f"{failed} had ended: FAILED" in err
    until(lambda: world.status_of(waiting) == "CANCELLED")


def test_a_bulk_cancel_counts_first_and_wants_a_yes(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="many")
    runs = [world.triggered("many") for _ in range(3)]
    until(lambda: all(world.status_of(run) == "PENDING" for run in runs))
    code, (card,), _ = waterclock("run", "cancel", "--job", "many", "--dry-run")
    assert (code, card["by_status"], card["requested"]) == (0, {"PENDING": 3}, 0)

    code, _, err = waterclock("run", "cancel", "--job", "many")
    assert code == 2
    assert "--yes" in err
    assert all(world.status_of(run) == "PENDING" for run in runs)

    code, (card,), _ = waterclock("run", "cancel", "--job", "many", "--status", "pending", "--yes")
    assert (code, card["requested"]) == (0, 3)


def test_a_cancel_of_nothing_is_a_usage_error(waterclock: Run) -> None:
    assert waterclock("run", "cancel")[0] == 2
    assert waterclock("run", "cancel", "default:nobody@20261121T090000Z")[0] == 3
    assert waterclock("run", "cancel", "--status", "failed")[0] == 2


def test_letters_are_listed_by_cause_shown_and_redriven(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="letters")
    runs = [world.given_up("letters", f"row {number}", payload={"row": number}) for number in range(2)]
    code, groups, _ = waterclock("dlq", "list", "--job", "letters", "--group")
    assert (code, [group["letters"] for group in groups]) == (0, [2])

    code, (card,), err = waterclock("dlq", "show", runs[0])
    assert (code, card["state"], card["payload"]) == (0, "open", '{"row":0}')
    assert "dlq redrive" in err

    code, (card,), _ = waterclock("dlq", "redrive", "--job", "letters", "--dry-run")
    assert (code, card["matched"], card["done"]) == (0, 2, 0)
    code, (card,), _ = waterclock("dlq", "redrive", "--job", "letters", "--payload", '{"row": 9}', "--yes")
    assert (code, card["done"], len(card["runs"])) == (0, 2, 2)
    assert {world.work_of(run).payload for run in card["runs"]} == {b'{"row":9}'}
    until(lambda: waterclock("dlq", "list", "--job", "letters")[1] == [])


def test_a_letter_is_discarded_by_name(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="put-away")
    run = world.given_up("put-away")
    code, (card,), _ = waterclock("dlq", "discard", run, "--note", "known")
    assert (code, card["done"]) == (0, 1)
    until(lambda: waterclock("dlq", "show", run)[1][0]["state"] == "discarded")
    code, _, err = waterclock("dlq", "redrive", run)
    assert code == 3
    assert "--state all" in err


def test_a_dry_run_says_which_would_be_refused_and_that_nothing_was_done(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="dry-round")
    run = world.given_up("dry-round", redrives=10)
    code, (card,), err = waterclock("dlq", "redrive", run, "--dry-run")
    assert (code, card["refused"]) == (1, 1)
    assert "1 would be refused" in err
    assert "nothing was changed" in err
    assert "was redriven 10 times" in err


def test_refusals_are_told_also_where_others_were_not_answered(
    world: FailingWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.commands.passing.ANSWERED_WITHIN_S", 0.3)
    world.create(name="both")
    refused, silent = world.given_up("both", redrives=10), world.given_up("both")
    world.obeys = False
    try:
        code, (card,), err = waterclock("dlq", "redrive", refused, silent)
    finally:
        world.obeys = True
    assert (code, card["refused"], card["done"]) == (6, 1, 0)
    assert "was redriven 10 times" in err
    assert "1 commands stand in the log" in err


def test_the_text_of_an_error_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"error": "\x1b[2Jgone \u202egnp\nsecond \x9bline"}, Format.TABLE)
    say("refused: \x1b[2Jgone")
    lines, _ = told(CommandFailed("ended FAILED: \x1b]0;title\x07", hint="\x1b[0m"))
    out, err = capsys.readouterr()
    shown = out + err + "\n".join(lines)
    assert [each for each in shown if not (each.isprintable() or each == "\n")] == []
    assert "\\x1b[2Jgone \\u202egnp" in out
    assert len(out.splitlines()) == 2


def test_a_redrive_that_is_refused_says_why_and_ends_with_1(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="round-again")
    run = world.given_up("round-again", redrives=10)
    code, _, err = waterclock("dlq", "redrive", run)
    assert code == 1
    assert "was redriven 10 times" in err


def test_the_rest_of_a_list_and_of_a_redrive_lies_behind_the_run_that_is_named(
    world: FailingWorld, waterclock: Run
) -> None:
    world.create(name="long")
    made = {world.given_up("long") for _ in range(3)}
    _, first, err = waterclock("dlq", "list", "--job", "long", "--limit", "2")
    assert f"--after '{first[-1]['run']}'" in err
    _, rest, err = waterclock("dlq", "list", "--job", "long", "--limit", "2", "--after", first[-1]["run"])
    assert {line["run"] for line in [*first, *rest]} == made
    assert "--after" not in err
    code, (card,), _ = waterclock("dlq", "redrive", "--job", "long", "--after", first[-1]["run"], "--yes")
    assert (code, card["matched"], card["done"]) == (0, 1, 1)


def test_an_unfinished_search_is_not_told_as_nothing(
    world: FailingWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(name="behind")
    world.given_up("behind")
    monkeypatch.setattr(dlq, "PATIENT_MAX", 1)
    _, lines, err = waterclock("dlq", "list", "--job", "nothing-of-it")
    assert lines == []
    assert "no dead letters" not in err
    assert "--after" in err


def test_nobody_redrives_everything_by_leaving_the_filter_out(waterclock: Run) -> None:
    assert waterclock("dlq", "redrive", "--yes")[0] == 2
    assert waterclock("dlq", "discard", "--yes")[0] == 2


def test_a_command_that_nobody_obeys_is_told_with_its_number(
    world: FailingWorld, waterclock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.commands.passing.ANSWERED_WITHIN_S", 0.3)
    world.create(name="unheard")
    run = world.triggered("unheard")
    until(lambda: world.status_of(run) == "PENDING")
    world.obeys = False
    try:
        code, _, err = waterclock("run", "cancel", run)
    finally:
        world.obeys = True
    assert code == 6
    assert "1 commands stand in the log" in err
    until(lambda: world.client.get(f"{API}/runs/{run}").json()["status"] == "CANCELLED")


def test_a_redrive_that_the_limits_of_its_job_drop_is_said_to_fail(world: FailingWorld, waterclock: Run) -> None:
    world.create(name="narrow", overlap="skip")
    run_id = world.given_up("narrow")
    world.triggered("narrow")
    code, (card,), err = waterclock("dlq", "redrive", run_id, "--yes")
    assert (card["done"], card["refused"], card["runs"]) == (0, 1, [])
    assert code != 0
    assert "the limits of its job have dropped" in err
    dropped = err.split("dropped ")[1].partition(",")[0]
    until(lambda: world.status_of(dropped) == "SKIPPED")
    _, _, err = waterclock("dlq", "redrive", run_id, "--yes")
    assert "the limits of its job have dropped" in err  # and no repeat of what was dropped before
    assert dropped not in err
    for _ in range(TRIES_MAX):
        dropped = err.split("dropped ")[1].partition(",")[0]
        until(lambda dropped=dropped: world.status_of(dropped) == "SKIPPED")
        code, _, err = waterclock("dlq", "redrive", run_id, "--yes")
    assert code != 0
    assert f"dropped {dropped}, which never runs: so were {TRIES_MAX} redrives of it before" in err
