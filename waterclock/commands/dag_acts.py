"""``waterclock dag cancel``, ``pause``, ``resume`` and ``rerun``: each says first, if asked, what it comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from waterclock.dag_runs.acting import Plan, act_on, plan_cancel, plan_pause, plan_rerun, plan_resume, rerun_of
from waterclock.dag_runs.reading import DagRunSeen
from waterclock.dag_runs.views import plan_view
from waterclock.model.job import Command, CommandKind
from waterclock.settings import Settings

from .connect import here, open_log, open_store
from .dag_runs import RunArgument, whole_dag_run
from .job_options import payload_bytes
from .output import OutputOption, show_one
from .passing import asked_here, pass_on, refusals, tell_failures

_RATE_PER_S = 100.0

NoteOption = Annotated[str, typer.Option(help="Why, for those who read it later")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say which nodes it comes to, and do nothing")]


def cancel(run: RunArgument, note: NoteOption = "", dry_run: DryRunOption = False, output: OutputOption = None) -> None:
    """Cancel a DagRun: what waits ends at once, what runs is asked to stop, and it ends with the last of them."""
    _act(CommandKind.CANCEL, plan_cancel, run, note, output, dry_run=dry_run)


def pause(run: RunArgument, note: NoteOption = "", dry_run: DryRunOption = False, output: OutputOption = None) -> None:
    """Pause a DagRun: none of its nodes begins; what runs goes on, and so does its time-out."""
    _act(CommandKind.PAUSE_RUN, plan_pause, run, note, output, dry_run=dry_run)


def resume(run: RunArgument, note: NoteOption = "", dry_run: DryRunOption = False, output: OutputOption = None) -> None:
    """Resume a paused DagRun: its nodes begin again, as their parents and its limits allow."""
    _act(CommandKind.RESUME_RUN, plan_resume, run, note, output, dry_run=dry_run)


def rerun(
    run: RunArgument,
    begin: Annotated[
        list[str] | None, typer.Option("--from", metavar="NODE", help="Begin with this node; may be repeated")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Begin with the nodes that failed")] = False,
    payload: Annotated[str | None, typer.Option(help="In its place; what is not JSON is taken as a string")] = None,
    note: NoteOption = "",
    dry_run: DryRunOption = False,
    output: OutputOption = None,
) -> None:
    """Run a DagRun again, as a new one of the same version: whole, or from some of its nodes on. It must have ended."""
    settings = here()
    with open_store(settings) as store:
        seen = whole_dag_run(store, run)
    plan = plan_rerun(seen, tuple(dict.fromkeys(begin or ())), failed=failed)
    if dry_run:
        show_one(plan_view(seen.run_id, plan), output)
        return
    _send(settings, rerun_of(seen, plan.begins, asked_here(note), payload_bytes(payload)), plan, output)


def _act(
    kind: CommandKind,
    planned: Callable[[DagRunSeen], Plan],
    run: str,
    note: str,
    output: OutputOption,
    *,
    dry_run: bool,
) -> None:
    settings = here()
    with open_store(settings) as store:
        seen = whole_dag_run(store, run)
    plan = planned(seen)
    if dry_run:
        show_one(plan_view(seen.run_id, plan), output)
        return
    _send(settings, act_on(kind, seen, asked_here(note)), plan, output)


def _send(settings: Settings, command: Command, plan: Plan, output: OutputOption) -> None:
    with open_log(settings) as log:
        passed = pass_on(settings, log, [command], _RATE_PER_S)
    done, _, silent = passed.tally([command])
    answer = passed.answers.get(command.command_id)
    card: dict[str, Any] = {"run_id": command.run_id, "done": bool(done)}
    if answer is not None and answer.run_id:
        card |= {"new_run_id": answer.run_id, "held": answer.held or None, "skipped": answer.skipped or None}
    card |= {name: list(names) for name, names in plan._asdict().items() if names}
    show_one(card, output)
    tell_failures(refusals(passed, [command]), silent, done=done)
