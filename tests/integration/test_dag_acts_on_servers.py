"""What people do with DagRuns, from the command line, over real role processes on real servers.

The nodes are programs that write down what they were given, and wait for files: so a test says when a node ends, and
what was run is read from outside. That something does not begin is shown by a later DagRun of the same job: it stands
behind in the same partition, so an engine that lets it run has read, and answered, all that came before it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from tests.acceptance import dumps
from tests.acceptance.taken import take_work
from tests.integration.test_dead_letters_on_servers import events_of, one, until
from tests.integration.test_run_logs_on_servers import Stack, stack
from tests.oracle import dag_runs, makings
from tests.oracle.records import decode
from waterclock import cli
from waterclock.commands.failing import ExitCode

pytestmark = pytest.mark.servers

__all__ = ["stack"]  # the fixture: roles of its own for this module, of the kind STACK

_ACTS = {"PAUSE_RUN": "pause", "RESUME_RUN": "resume", "CANCEL": "cancel", "RERUN": "rerun"}

_PROGRAM = """
printf '%s\\t%s\\t%s\\n' "$WATERCLOCK_RUN_ID" $$ "$(cat)" >> "$1/diary"
until [ -e "$1/$2" ]; do sleep 0.05; done
[ -e "$1/$3" ] || exit 4
printf %s "$WATERCLOCK_RUN_ID"
"""
"""Of a node: into the diary, wait for a file, fail where another one is missing; its result names its own run."""


class Noted(NamedTuple):
    """A line of the diary: a program that began, and what it was given."""

    run_id: str
    pid: int
    given: Any


class DagStack(Stack):
    """The stack with a DAG engine, and the outside of its programs. ``acts``: those done so far, (verb, DagRun)."""

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.engine = self.role("dag_engine")
        self.roles.append(self.engine)
        self.acts: list[tuple[str, str]] = []

    def command(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """As any stack's, in this process: a command's start would take most of this module's time."""
        out, err = StringIO(), StringIO()
        with (
            patch.dict(os.environ, self.env),
            patch.object(sys, "argv", ["waterclock", *words]),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main()
        return int(ended.value.code or 0), [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()

    def node(self, name: str, *after: str, waits_for: str = "", needs: str = "", **more: Any) -> dict[str, Any]:
        """A node; without files it ends well at once."""
        argv = ["/bin/sh", "-c", _PROGRAM, "sh", str(self.folder), waits_for or ".", needs or "."]
        return {"name": name, "shell": {"argv": argv}, "after": list(after), "retry": {"max_attempts": 1}, **more}

    def dag_run_of(self, name: str, *nodes: dict[str, Any], payload: Any = None) -> str:
        """A Dag of these nodes, triggered, with a payload of its own if one is given; its DagRun."""
        words = () if payload is None else ("--payload", json.dumps(payload))
        return self.run_of(name, {"dag": {"nodes": nodes}, "payload": "the job's"}, *words)

    def put(self, file: str) -> None:
        """That for which somebody waits, or which somebody needs."""
        (self.folder / file).touch()

    def ran(self, dag_run: str) -> dict[str, Noted]:
        """By node what was run of this DagRun, in the order of their begin."""
        diary = self.folder / "diary"
        lines = [line.split("\t") for line in diary.read_text().splitlines()] if diary.exists() else []
        found = [Noted(run_id, int(pid), json.loads(given)) for run_id, pid, given in lines]
        of_it = [each for each in found if each.run_id.startswith(f"{dag_run}/")]
        by_node = {each.run_id.rpartition("/")[2]: each for each in of_it}
        assert len(by_node) == len(of_it), "a node was run twice"
        return by_node

    def is_alive(self, dag_run: str, node: str) -> bool:
        """Whether the program that this node began is there."""
        return Path(f"/proc/{self.ran(dag_run)[node].pid}").exists()

    def seen(self, dag_run: str) -> dict[str, Any]:
        """The DagRun as ``dag show`` has it, of its nodes the statuses by name; history may not know it yet."""
        code, cards, said = self.command("dag", "show", dag_run)
        if code == ExitCode.NOT_FOUND:
            return {"ended_at": None, "whole": False, "nodes": {}}
        assert code == ExitCode.OK, said
        (card,) = cards
        begun = [node for node in card["nodes"] if node["status"] or card["status"] != "CANCELLED"]
        whole = all(node["counts_as"] for node in begun)
        return card | {"whole": whole, "nodes": {node["node"]: node["status"] for node in card["nodes"]}}

    def ended(self, dag_run: str) -> dict[str, Any]:
        """The same once it has ended, and history has all of its nodes: their rows are written beside its own."""
        found: dict[str, Any] = until(lambda: (card := self.seen(dag_run))["ended_at"] and card["whole"] and card)
        return found

    def plan(self, verb: str, dag_run: str, *words: str) -> dict[str, list[str]]:
        """What a dry run of an act says, without what is empty."""
        said = one(self, "dag", verb, dag_run, *words, "--dry-run")
        assert (said.pop("dry_run"), said.pop("run_id")) == (True, dag_run)
        return {key: names for key, names in said.items() if names}

    def act(self, verb: str, dag_run: str, *words: str) -> dict[str, Any]:
        """Do it."""
        self.acts.append((verb, dag_run))
        done = one(self, "dag", verb, dag_run, *words)
        assert (done.pop("done"), done.pop("run_id")) == (True, dag_run)
        return {key: said for key, said in done.items() if said is not None}

    def refusal(self, verb: str, dag_run: str, *words: str) -> str:
        """What is said of an act that the state of the DagRun does not allow."""
        code, documents, said = self.command("dag", verb, dag_run, *words)
        assert (code, documents) == (ExitCode.CONFLICT, [])
        return said

    def let_another_pass(self, job: str) -> str:
        """One more DagRun of the job, from trigger to end: all that stands before it has been answered by then."""
        later: str = one(self, "job", "trigger", job)["run"]
        assert self.ended(later)["status"] == "SUCCEEDED"
        return later


STACK = DagStack


def test_a_paused_dag_run_begins_no_node_and_stuck_names_it_until_it_is_resumed(stack: DagStack) -> None:
    nodes = stack.node("load", waits_for="loaded"), stack.node("report", "load"), stack.node("mail", "report")
    run = stack.dag_run_of("nightly", *nodes)
    until(lambda: stack.seen(run)["nodes"].get("load") == "RUNNING")
    kept_back = {"goes_on": ["load"], "never": ["report", "mail"]}
    assert stack.plan("pause", run) == kept_back

    assert stack.act("pause", run, "--note", "the bank is shut") == kept_back
    stack.put("loaded")
    until(lambda: stack.seen(run)["nodes"]["load"] == "SUCCEEDED")
    later = stack.let_another_pass("nightly")

    assert (list(stack.ran(run)), list(stack.ran(later))) == (["load"], ["load", "report", "mail"])
    assert events_of(stack, f"{run}/report") == []
    (found,) = stack.command("dag", "stuck", "nightly")[1]
    assert [found[key] for key in ("run_id", "node", "reason", "behind")] == [run, "report", "paused", 1]
    listed = {row["run_id"]: row["status"] for row in stack.command("dag", "runs", "nightly")[1]}
    assert listed == {run: "RUNNING (paused)", later: "SUCCEEDED"}

    assert stack.plan("resume", run) == stack.act("resume", run) == {"runs": ["report"]}
    assert stack.ended(run)["status"] == "SUCCEEDED"
    assert list(stack.ran(run)) == ["load", "report", "mail"]
    assert stack.command("dag", "stuck", run)[:2] == (ExitCode.OK, [])
    assert "had ended" in stack.refusal("pause", run)


def test_a_dag_run_whose_nodes_have_all_ended_stays_open_while_it_is_paused_and_stuck_says_so(stack: DagStack) -> None:
    run = stack.dag_run_of("single", stack.node("all", waits_for="all done"))
    until(lambda: stack.seen(run)["nodes"].get("all") == "RUNNING")
    stack.act("pause", run)
    stack.put("all done")
    found = until(lambda: stack.command("dag", "stuck", run)[1])
    assert [(each["node"], each["reason"]) for each in found] == [("", "paused")]

    stack.let_another_pass("single")
    card = stack.seen(run)
    assert (card["status"], card["paused"], card["nodes"]) == ("RUNNING", True, {"all": "SUCCEEDED"})

    stack.act("resume", run)
    assert stack.ended(run)["status"] == "SUCCEEDED"
    assert events_of(stack, run) == ["PENDING", "DAG_PAUSED", "DAG_RESUMED", "DAG_SUCCEEDED"]


def test_a_pause_outlives_the_engine_that_has_read_it(stack: DagStack) -> None:
    run = stack.dag_run_of("patient", stack.node("first", waits_for="go on"), stack.node("second", "first"))
    until(lambda: stack.seen(run)["nodes"].get("first") == "RUNNING")
    stack.act("pause", run)
    group, topic = stack.names.group("dag-engine"), stack.names.run_events
    until(lambda: dumps.unread(stack.bootstrap, group, [topic]) == 0)
    stack.engine.kill()
    stack.put("go on")
    until(lambda: stack.seen(run)["nodes"]["first"] == "SUCCEEDED")
    stack.engine.start().wait_ready()

    stack.let_another_pass("patient")
    assert list(stack.ran(run)) == ["first"]
    stack.act("resume", run)
    assert stack.ended(run)["nodes"] == {"first": "SUCCEEDED", "second": "SUCCEEDED"}


def test_a_cancelled_dag_run_stops_what_runs_and_begins_nothing_more(stack: DagStack) -> None:
    nodes = stack.node("load", waits_for="too late"), stack.node("clean-up", "load", trigger_rule="all_done")
    run = stack.dag_run_of("given-up", *nodes, stack.node("list"))
    under_way = {"load": "RUNNING", "clean-up": None, "list": "SUCCEEDED"}
    until(lambda: stack.seen(run)["nodes"] == under_way and "load" in stack.ran(run))
    assert "has not ended" in stack.refusal("rerun", run, "--failed")
    meant = {"stopped": ["load"], "never": ["clean-up"]}
    assert stack.plan("cancel", run) == meant
    assert stack.is_alive(run, "load"), "a dry run stops nothing"

    assert stack.act("cancel", run, "--note", "not needed") == meant

    card = stack.ended(run)
    assert (card["status"], card["reason"]) == ("CANCELLED", "not needed")
    assert card["nodes"] == under_way | {"load": "CANCELLED"}
    until(lambda: not stack.is_alive(run, "load"))
    stack.put("too late")
    stack.let_another_pass("given-up")
    assert stack.ran(run).keys() == {"load", "list"}
    assert "had ended" in stack.refusal("cancel", run)


FAILED = {"list": "SUCCEEDED", "load": "FAILED", "archive": "SUCCEEDED", "report": "SKIPPED"}
MONDAY, TUESDAY = {"day": "monday"}, {"day": "tuesday"}


@pytest.fixture(scope="module")
def failed(stack: DagStack) -> str:
    """A DagRun that has ended because ``load`` did not find what it needs, without which ``report`` could not run."""
    nodes = (
        stack.node("list"),
        stack.node("load", "list", needs="mended", inputs=["list"]),
        stack.node("archive", "list", inputs=["list"]),
        stack.node("report", "load", "archive", inputs=["load", "archive"]),
    )
    run = stack.dag_run_of("etl", *nodes, payload=MONDAY)
    card = stack.ended(run)
    assert (card["status"], card["reason"], card["nodes"]) == ("FAILED", "nodes-failed: report", FAILED)
    stack.put("mended")
    return run


def rerun(stack: DagStack, run: str, *words: str, **plan: list[str]) -> dict[str, Any]:
    """The DagRun that a rerun makes, once it has ended; its dry run has said the same."""
    assert stack.plan("rerun", run, *words) == plan
    done = stack.act("rerun", run, *words)
    new = done.pop("new_run_id")
    assert done == plan
    card = stack.ended(new)
    assert (card["linked_run"], card["made_by"], card["rerun_from"]) == (run, "redrive", plan.get("begins", []))
    return card


def made_by(run: str, node: str) -> dict[str, str]:
    """The result of a node's program."""
    return {"stdout": f"{run}/{node}"}


def test_a_rerun_of_the_failed_nodes_runs_those_and_what_hangs_on_them_alone(stack: DagStack, failed: str) -> None:
    plan = {"begins": ["load"], "runs": ["load", "report"], "kept": ["list", "archive"]}
    card = rerun(stack, failed, "--failed", **plan)

    assert card["status"] == "SUCCEEDED"
    assert card["nodes"] == {"list": "SKIPPED", "load": "SUCCEEDED", "archive": "SKIPPED", "report": "SUCCEEDED"}
    ran = stack.ran(card["run_id"])
    assert list(ran) == ["load", "report"]
    assert ran["load"].given == {"payload": MONDAY, "upstream": {"list": made_by(failed, "list")}}
    new_and_kept = {"load": made_by(card["run_id"], "load"), "archive": made_by(failed, "archive")}
    assert ran["report"].given == {"payload": MONDAY, "upstream": new_and_kept}
    assert stack.seen(failed)["nodes"] == FAILED, "what was stays as it was"


def test_a_rerun_from_a_node_keeps_a_failure_that_does_not_come_after_it(stack: DagStack, failed: str) -> None:
    plan = {"begins": ["archive"], "runs": ["archive", "report"], "kept": ["list", "load"]}
    card = rerun(stack, failed, "--from", "archive", "--payload", json.dumps(TUESDAY), **plan)

    assert (card["status"], card["reason"]) == ("FAILED", "nodes-failed: report")
    ran = stack.ran(card["run_id"])
    assert list(ran) == ["archive"]
    assert ran["archive"].given == {"payload": TUESDAY, "upstream": {"list": made_by(failed, "list")}}


def test_a_whole_rerun_runs_every_node_again_with_the_payload_of_the_first(stack: DagStack, failed: str) -> None:
    card = rerun(stack, failed, runs=["list", "load", "archive", "report"])

    new = card["run_id"]
    assert (card["status"], set(card["nodes"].values())) == ("SUCCEEDED", {"SUCCEEDED"})
    ran = stack.ran(new)
    assert ran.keys() == {"list", "load", "archive", "report"}
    assert ran["list"].given == MONDAY
    assert ran["load"].given == {"payload": MONDAY, "upstream": {"list": made_by(new, "list")}}
    newest, *_ = stack.command("dag", "runs", "etl")[1]
    assert (newest["run_id"], newest["linked_run"]) == (new, failed)


def test_each_act_was_one_command_no_dry_run_was_any_and_the_log_holds_to_the_rules(stack: DagStack) -> None:
    """Of all that the tests before have done."""
    names = stack.names
    commands, events = (dumps.dump(stack.bootstrap, topic) for topic in (names.commands, names.run_events))
    told = [decode(record["value"])[1] for record in commands]
    assert sorted((_ACTS[each["kind"]], each["run_id"]) for each in told if each["kind"] in _ACTS) == sorted(stack.acts)

    work, _ = take_work(stack.bootstrap, names)
    complaints, counts = dag_runs.check(events, work, makings.meant(commands, events))
    assert complaints == []
    done = [verb for verb, _ in stack.acts]
    seen = [counts[what] for what in ("DagRuns DAG_PAUSED", "DagRuns DAG_RESUMED", "DagRuns CANCELLED", "reruns")]
    assert seen == [done.count(verb) for verb in _ACTS.values()]
