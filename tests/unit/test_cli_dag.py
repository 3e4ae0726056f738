"""``waterclock dag lint`` and ``render``: a file, no server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.in_process import documents_of, run_command

Run = Callable[..., tuple[int, str, str]]

YAML = """\
name: nightly
cron: "0 5 * * *"
dag:
  nodes:
    - {name: list-files, handler: etl.list_files}
    - {name: choose, handler: etl.choose, branch: true, after: [list-files]}
    - {name: load, handler: etl.load, after: [choose], map: {over: list-files}}
    - {name: archive, http: {url: "https://a.example/x"}, after: [choose], payload: {day: 2026-11-21}}
    - {name: report, handler: etl.report, after: [load, archive], inputs: [load]}
    - {name: alarm, handler: etl.alarm, after: [report], trigger_rule: one_failed}
"""

DRAWN = """\
┌─ 1 ─────────────
│ list-files                    etl.list_files
├─ 2 ─────────────
│ choose      <- list-files     etl.choose · branch
├─ 3 ─────────────
│ load        <- choose         etl.load · map over list-files
│ archive     <- choose         http POST https://a.example/x
├─ 4 ─────────────
│ report      <- load, archive  etl.report · takes load
├─ 5 ─────────────
│ alarm       <- report         etl.alarm · one_failed
└─
"""


@pytest.fixture
def waterclock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("nightly.yaml").write_text(YAML, encoding="utf-8")
    return lambda *words: run_command(monkeypatch, capsys, *words)


def test_a_dag_is_drawn_level_by_level(waterclock: Run) -> None:
    assert waterclock("dag", "render", "nightly.yaml", "-o", "table") == (0, DRAWN, "")
    _, out, _ = waterclock("dag", "render", "nightly.yaml")
    nodes = {each["node"]: each for each in documents_of(out)}
    alarm = {"level": 5, "node": "alarm", "after": ["report"], "trigger_rule": "one_failed", "handler": "etl.alarm"}
    assert nodes["alarm"] == alarm
    assert (nodes["load"]["map"], nodes["choose"]["branch"]) == ({"over": "list-files"}, True)
    assert (nodes["report"]["inputs"], nodes["report"]["trigger_rule"]) == (["load"], "all_success")
    assert (nodes["archive"]["http"]["url"], "handler" in nodes["archive"]) == ("https://a.example/x", False)


def test_what_a_node_and_the_dag_say_of_their_own_is_drawn_and_told(waterclock: Run) -> None:
    text = (
        "dag: {max_active_nodes: 8, timeout: 4h, nodes: ["
        "{name: a, handler: h, tier: low, pool: etl, retry: {max_attempts: 7}, timeouts: {attempt: 2m}},"
        "{name: b, handler: h, after: [a], map: {over: a, concurrency: 4}, inputs: [a]}]}"
    )
    Path("own.yaml").write_text(text)
    _, drawn, _ = waterclock("dag", "render", "own.yaml", "-o", "table")
    assert drawn.splitlines() == [
        "max_active_nodes 8 · timeout 4h",
        "┌─ 1 ────",
        "│ a        h · tier low · pool etl",
        "├─ 2 ────",
        "│ b  <- a  h · map over a, 4 at once · takes a",
        "└─",
    ]
    _, out, _ = waterclock("dag", "render", "own.yaml")
    first, second = documents_of(out)
    assert (first["tier"], first["pool"], first["timeouts"]) == ("low", "etl", {"attempt": "2m"})
    assert first["retry"]["max_attempts"] == 7
    assert second["map"] == {"over": "a", "concurrency": 4}
    assert [key for key in ("tier", "pool", "retry", "timeouts", "branch") if key in second] == [], "the job's"


def test_lint_says_what_may_not_be_meant(waterclock: Run) -> None:
    code, out, err = waterclock("dag", "lint", "nightly.yaml")
    assert code == 0
    assert "6 nodes, 6 arrows, 5 levels: a door takes it" in err
    assert {each["node"]: each["remark"].partition(":")[0] for each in documents_of(out)} == {
        "report": "it is skipped whenever load is",
        "alarm": "it is a leaf that may run after failures",
    }


def test_lint_refuses_what_a_door_would_with_the_cycle(waterclock: Run) -> None:
    Path("x.json").write_text(
        json.dumps(
            {"nodes": [{"name": "a", "handler": "h", "after": ["b"]}, {"name": "b", "handler": "h", "after": ["a"]}]}
        )
    )
    code, _, err = waterclock("dag", "lint", "x.json")
    assert code == 2
    assert "a -> b -> a" in err or "b -> a -> b" in err


def test_the_nodes_alone_will_do_and_the_missing_schedule_is_told(waterclock: Run) -> None:
    Path("x.json").write_text(json.dumps({"nodes": [{"name": "a", "handler": "h"}]}))
    code, _, err = waterclock("dag", "lint", "x.json")
    assert (code, "no schedule yet" in err) == (0, True)
    assert waterclock("dag", "render", "x.json", "-o", "json")[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "neither JSON nor YAML"),
        ("- a", "is not an object"),
        ("dag: &x {nodes: []}\nother: *x", "aliases"),
        ("dag: {nodes: []}\ndag: {nodes: []}", "given twice"),
        ("handler: x\nevery: 5s", "no Dag"),
        ("a: !!python/object:os.system x", "neither JSON nor YAML"),
    ],
)
def test_a_file_that_is_no_dag_is_refused(waterclock: Run, text: str, words: str) -> None:
    Path("x.yaml").write_text(text)
    code, _, err = waterclock("dag", "lint", "x.yaml")
    assert code == 2
    assert words in err


def test_a_missing_file_is_told(waterclock: Run) -> None:
    code, _, err = waterclock("dag", "render", "nowhere.yaml")
    assert (code, "cannot be read" in err) == (2, True)
