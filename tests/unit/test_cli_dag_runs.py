"""``waterclock dag show``, ``runs``, ``stuck`` and the acts on DagRuns: what people see, and what is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.dag_history import JOB, REVISION, DagHistory
from tests.unit.in_process import documents_of, run_command
from waterclock.clock import ManualClock, SystemClock
from waterclock.commands import cancel, dag_acts, dag_runs, run
from waterclock.commands.dag_tree import draw_run, duration_text
from waterclock.commands.passing import Passed
from waterclock.dag_runs import listing
from waterclock.dag_runs.looking import stuck_in
from waterclock.dag_runs.picture import nodes_seen
from waterclock.dag_runs.reading import read_dag_run
from waterclock.model.dag import Node
from waterclock.model.errors import BackendDown
from waterclock.model.events import Answered, CommandVerdict, RunStatus
from waterclock.model.ids import US_PER_S, parse_run_id
from waterclock.model.job import Command, CommandKind
from waterclock.settings import Settings
from waterclock.store.port import History

Run = Callable[..., tuple[int, str, str]]

DRAWN = """\
{run}  FAILED  2m 4s  nodes-failed: report
* ✓ list        succeeded       3.9s
* ├─ ✗ load     failed         2m 0s  items: 1 failed, 2 succeeded · load.1: ValueError: no 7
* │  - report   skipped               upstream-failed · also after archive
  └─ ✓ archive  succeeded       6.0s
* took longest: list > load > report"""


@pytest.fixture
def history() -> DagHistory:
    return DagHistory(ManualClock(SystemClock().now() - 3_600 * US_PER_S))


@pytest.fixture
def sent() -> list[Command]:
    return []


@pytest.fixture
def waterclock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], history: DagHistory, sent: list[Command]
) -> Run:
    @contextmanager
    def opened(_settings: Settings) -> Iterator[Any]:
        yield history.store

    @contextmanager
    def away(_settings: Settings) -> Iterator[Any]:
        raise BackendDown("kafka", "away")
        yield

    def pass_on(_settings: Settings, _log: Any, commands: Sequence[Command], _rate_per_s: float) -> Passed:
        sent.extend(commands)
        return Passed(
            {
                each.command_id: Answered(each.command_id, 0, CommandVerdict.APPLIED, 6, run_id="new")
                for each in commands
            }
        )

    for module in (dag_runs, dag_acts, run, cancel):
        monkeypatch.setattr(module, "open_store", opened)
        monkeypatch.setattr(module, "here", Settings)
    for module in (run, cancel):
        monkeypatch.setattr(module, "open_log", opened)
    monkeypatch.setattr(run, "who_serves", lambda *_, **__: {})
    monkeypatch.setattr(cancel, "pass_on", pass_on)
    monkeypatch.setattr(dag_runs, "open_log", away)
    monkeypatch.setattr(dag_acts, "open_log", opened)
    monkeypatch.setattr(dag_acts, "pass_on", pass_on)
    return lambda *words: run_command(monkeypatch, capsys, *words)


def test_a_dag_run_is_drawn_as_a_tree_that_reads_without_colour(waterclock: Run, history: DagHistory) -> None:
    history.ended_badly()
    code, out, _ = waterclock("dag", "show", history.run_id, "-o", "table")
    assert code == 0
    assert out.rstrip("\n") == DRAWN.format(run=history.run_id)


def test_what_has_not_begun_says_what_it_waits_for(history: DagHistory) -> None:
    history.node("list", RunStatus.RUNNING, 0.1)
    history.run()
    seen = read_dag_run(history.store, parse_run_id(history.run_id))
    assert seen is not None
    lines = [line.text for line in draw_run(seen, nodes_seen(seen), [], history.began_at + 3_661 * US_PER_S)]
    assert lines[0].endswith("RUNNING  1h 1m")
    assert lines[1].split() == ["*", "▶", "list", "running", "1h", "1m"]
    assert lines[2].endswith("all_success waits for list"), lines


def test_a_long_chain_stays_at_the_left_and_a_comb_does_not_run_off_to_the_right() -> None:
    chain = tuple(Node(f"n{i}", "h", after=(f"n{i - 1}",) if i else ()) for i in range(200))
    comb = tuple(
        node
        for i in range(40)
        for node in (
            Node(f"n{i}", "h", after=(f"n{i - 1}",) if i else ()),
            Node(f"leaf{i}", "h", after=(f"n{i}",)),
        )
    )
    for nodes, most in ((chain, 60), (comb, 120)):
        history = DagHistory(ManualClock(SystemClock().now()), nodes)
        history.run()
        seen = read_dag_run(history.store, parse_run_id(history.run_id))
        assert seen is not None
        lines = draw_run(seen, nodes_seen(seen), [], history.began_at)
        assert len(lines) == len(nodes) + 1
        assert max(line.text.index("waiting") for line in lines[1:]) < most


def test_the_same_as_a_document(waterclock: Run, history: DagHistory) -> None:
    history.ended_badly()
    _, out, _ = waterclock("dag", "show", history.run_id)
    (shown,) = documents_of(out)
    assert shown["critical_path"] == ["list", "load", "report"]
    assert [node["status"] for node in shown["nodes"]] == ["SUCCEEDED", "FAILED", "SUCCEEDED", "SKIPPED"]


def test_a_jobs_dag_runs_are_listed(waterclock: Run, history: DagHistory) -> None:
    history.run(paused=True)
    _, out, _ = waterclock("dag", "runs", "nightly")
    assert [(row["run_id"], row["status"]) for row in documents_of(out)] == [(history.run_id, "RUNNING (paused)")]


def test_what_is_stuck_is_named_and_nothing_else(waterclock: Run, history: DagHistory) -> None:
    history.node("list", RunStatus.RUNNING, 0.1)
    history.run()
    code, out, err = waterclock("dag", "stuck")
    assert (code, out) == (0, "")
    assert "nothing is stuck in 1 open DagRuns" in err
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]", wts=history.began_at + 32)
    for words in ((), ("nightly",), (history.run_id,)):
        _, out, _ = waterclock("dag", "stuck", *words)
        found = [(row["node"], row["reason"], row["behind"]) for row in documents_of(out)]
        assert found == [("load.0", "not-released", 1), ("archive", "not-released", 1)]


def test_nothing_is_said_to_be_stuck_in_a_job_that_does_not_exist(waterclock: Run, history: DagHistory) -> None:
    code, _, err = waterclock("dag", "stuck", "nightly")
    assert (code, "nothing is stuck in 0 open DagRuns" in err) == (0, True), "one without DagRuns is there"
    code, out, err = waterclock("dag", "stuck", "nihgtly")
    assert (code, out, "There is no job default:nihgtly" in err, "nothing is stuck" in err) == (3, "", True, False)
    code, _, err = waterclock("dag", "runs", "nihgtly")
    assert (code, "There is no job default:nihgtly" in err, "no DagRuns yet" in err) == (3, True, False)


def test_a_run_of_another_kind_or_nobodys_is_not_found(waterclock: Run, history: DagHistory) -> None:
    history.run(is_dag=False)
    assert waterclock("dag", "show", history.run_id)[0] == 3
    assert waterclock("dag", "show", "default:other@20261121T050000Z")[0] == 3
    assert waterclock("dag", "show", "nightly")[0] == 2


def test_a_dry_run_says_which_nodes_and_sends_nothing(
    waterclock: Run, history: DagHistory, sent: list[Command]
) -> None:
    history.ended_badly()
    _, out, _ = waterclock("dag", "rerun", history.run_id, "--failed", "--dry-run")
    (plan,) = documents_of(out)
    assert (plan["begins"], plan["runs"], plan["kept"]) == (["load"], ["load", "report"], ["list", "archive"])
    assert sent == []


@pytest.mark.parametrize("archive", [RunStatus.RUNNING, None])
def test_what_failed_is_not_told_from_some_of_the_nodes(
    waterclock: Run, history: DagHistory, sent: list[Command], archive: RunStatus | None
) -> None:
    """The DagRun's row is written beside those of its nodes, and may be read before they are there."""
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    history.node("load.0", RunStatus.FAILED, 4, 124)
    if archive is not None:
        history.node("archive", archive, 4)
    history.run(RunStatus.FAILED, ended_s=124, reason="nodes-failed: report")
    for words in (("--failed",), ("--failed", "--dry-run")):
        code, _, err = waterclock("dag", "rerun", history.run_id, *words)
        assert (code, "History does not tell yet" in err, sent) == (4, True, [])
    assert waterclock("dag", "rerun", history.run_id, "--from", "load")[0] == 0
    assert [each.rerun_from for each in sent] == [("load",)]


def test_a_rerun_names_version_and_nodes(waterclock: Run, history: DagHistory, sent: list[Command]) -> None:
    history.ended_badly()
    code, out, _ = waterclock("dag", "rerun", history.run_id, "--from", "load", "--payload", '{"a": 1}', "--note", "x")
    assert code == 0
    (command,) = sent
    assert (command.kind, command.job_id, command.run_id) == (CommandKind.RERUN, JOB, history.run_id)
    assert (command.to_revision, command.rerun_from, command.payload) == (REVISION, ("load",), b'{"a":1}')
    assert (command.note, command.answer) == ("x", True)
    assert documents_of(out)[0]["new_run_id"] == "new"


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("cancel", CommandKind.CANCEL), ("pause", CommandKind.PAUSE_RUN), ("resume", CommandKind.RESUME_RUN)],
)
def test_an_act_is_one_command_and_none_for_what_has_ended(
    waterclock: Run, history: DagHistory, sent: list[Command], verb: str, kind: CommandKind
) -> None:
    history.node("list", RunStatus.RUNNING, 0.1)
    history.run()
    assert waterclock("dag", verb, history.run_id, "--dry-run")[0] == 0
    assert sent == []
    assert waterclock("dag", verb, history.run_id)[0] == 0
    assert [(each.kind, each.run_id) for each in sent] == [(kind, history.run_id)]
    history.run(RunStatus.SUCCEEDED, ended_s=9, wts=history.began_at + 32)
    code, _, err = waterclock("dag", verb, history.run_id)
    assert (code, "had ended: SUCCEEDED" in err) == (4, True)
    assert len(sent) == 1


@pytest.mark.parametrize("limit", [1, 20])
def test_skipped_fires_hide_no_dag_runs(
    waterclock: Run, history: DagHistory, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)
    history.run()
    row = history.store.run(*parse_run_id(history.run_id)[:3])
    assert row is not None
    later = [row._replace(fire_at=row.fire_at + number * US_PER_S, is_dag=False) for number in range(1, 26)]
    history.store.record(History(later)).wait(1)
    code, out, err = waterclock("dag", "runs", "nightly", "--limit", str(limit))
    assert (code, [each["run_id"] for each in documents_of(out)]) == (0, [history.run_id]), err


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_has_not_begun_is_not_paused(waterclock: Run, history: DagHistory, sent: list[Command], verb: str) -> None:
    history.run(RunStatus.PENDING, reason="max-concurrent")
    code, _, err = waterclock("dag", verb, history.run_id)
    assert (code, "has not begun" in err, sent) == (4, True, [])


def test_a_node_that_is_named_is_shown_and_cancelled_and_not_its_dag_run(
    waterclock: Run, history: DagHistory, sent: list[Command]
) -> None:
    history.node("list", RunStatus.PENDING, 0.1)
    history.run()
    code, out, _ = waterclock("run", "show", f"{history.run_id}/list")
    assert (code, documents_of(out)[0]["run"], documents_of(out)[0]["made_by"]) == (
        0,
        f"{history.run_id}/list",
        "release",
    )
    assert waterclock("run", "show", f"{history.run_id}/gone")[0] == 3
    assert waterclock("run", "cancel", f"{history.run_id}/list")[0] == 0
    assert [each.run_id for each in sent] == [f"{history.run_id}/list"]


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "rerun"])
def test_an_act_at_the_id_of_a_node_does_not_touch_its_dag_run(
    waterclock: Run, history: DagHistory, sent: list[Command], verb: str
) -> None:
    history.node("list", RunStatus.FAILED, 0.1)
    history.run(RunStatus.FAILED if verb == "rerun" else RunStatus.RUNNING)
    code, _, err = waterclock("dag", verb, f"{history.run_id}/list")
    assert (code, sent) == (2, [])
    assert f"waterclock run cancel {history.run_id}/list" in " ".join(err.split())


def test_a_cancelled_dag_run_has_nothing_stuck(history: DagHistory) -> None:
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    history.run(cancel_requested=True)
    seen = read_dag_run(history.store, parse_run_id(history.run_id))
    assert seen is not None
    assert stuck_in(seen, frozenset(), history.began_at + 3_600 * US_PER_S) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (59.9, "59s"), (185, "3m 5s"), (7_800, "2h 10m"), (90_000, "1d 1h")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration_text(int(seconds * US_PER_S)) == text


def test_of_a_dag_run_no_worker_is_judged_and_where_its_nodes_are_shown_is_said(
    waterclock: Run, history: DagHistory
) -> None:
    history.run()
    code, out, err = waterclock("run", "show", history.run_id)
    (card,) = documents_of(out)
    assert (code, card["status"], "worker_alive" in card, "note" in card) == (0, "RUNNING", False, False)
    assert f"waterclock dag show '{history.run_id}'" in err
