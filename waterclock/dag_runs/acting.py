"""What people do with a DagRun, as a command: cancelled, paused, resumed, run again; and what that will come to. Pure.

What must hold: what a dry run says follows from the same rule as what the engine does. A DagRun goes on while somebody
reads that, so it is true of the moment that history shows.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.dead_letters.acting import Asked
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_release import DagRunState
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import NODES_FAILED, kept_nodes
from waterclock.model.errors import Conflict, RequestError
from waterclock.model.events import FINAL, RunStatus
from waterclock.model.job import Command, CommandKind

from .picture import nodes_seen
from .reading import DagRunSeen

_READY_MAX = 1_000
"""Node runs that a resume is asked for; items of a mapped node count each."""


class Plan(NamedTuple):
    """What an act comes to, by names of nodes. ``runs``: will run, or are decided anew.

    ``begins``: of a rerun the nodes that it begins with, none: all of it. ``kept``: stay as they were. ``stopped``: are
    under way, and asked to stop. ``never``: will not begin. ``goes_on``: are under way, and are not touched.
    """

    runs: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    goes_on: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()


class EndedAlready(Conflict):
    """The DagRun has ended."""


def plan_cancel(seen: DagRunSeen) -> Plan:
    """What a cancel ends."""
    _check_open(seen, "cancel")
    nodes = nodes_seen(seen)
    running = [each.node.name for each in nodes if each.status is RunStatus.RUNNING]
    ended = {each.node.name for each in nodes if each.counts_as is not None}
    names = [each.node.name for each in nodes]
    return Plan(stopped=tuple(running), never=tuple(name for name in names if name not in {*running, *ended}))


def plan_pause(seen: DagRunSeen) -> Plan:
    """What a pause keeps from beginning, for as long as it lasts."""
    _check_open(seen, "pause")
    _check_can_pause(seen)
    nodes = nodes_seen(seen)
    waiting = (each.node.name for each in nodes if each.status is None or (each.items and each.counts_as is None))
    under_way = (each.node.name for each in nodes if each.status is not None and each.counts_as is None)
    return Plan(never=tuple(waiting), goes_on=tuple(under_way))


def plan_resume(seen: DagRunSeen) -> Plan:
    """What begins with a resume. At once, as far as its limits allow; its children follow as ever."""
    _check_open(seen, "resume")
    _check_can_pause(seen)
    state = seen.fresh_state()
    releases = [] if state is None else state.decide(_READY_MAX).releases
    under_way = (each.node.name for each in nodes_seen(seen) if each.status is not None and each.counts_as is None)
    return Plan(runs=tuple(dict.fromkeys(each.node for each in releases)), goes_on=tuple(under_way))


def plan_rerun(seen: DagRunSeen, rerun_from: tuple[str, ...], *, failed: bool = False) -> Plan:
    """What a rerun runs and what it keeps. ``failed``: it begins with the nodes that failed. Raises RequestError."""
    if seen.is_open:
        raise Conflict(
            f"{seen.run_id} has not ended",
            pointer="/run_id",
            hint="Wait for its end, or cancel it: a rerun keeps how its nodes ended",
        )
    if seen.graph is None or seen.state is None:
        raise Conflict(
            f"The version of {seen.run_id}, or how its nodes stand, cannot be read",
            pointer="/run_id",
            hint="Trigger the job instead",
        )
    if failed and rerun_from:
        raise RequestError("Say from where, or failed, not both", pointer="/from", hint="Leave one of them out")
    unknown = next((name for name in rerun_from if name not in seen.graph.place), None)
    if unknown is not None:
        raise RequestError(
            f"{unknown[:80]!r} is no node of the Dag",
            pointer="/from",
            hint=f"Its nodes: {', '.join(list(seen.graph.place)[:20])}",
        )
    before = seen.state.whole_nodes()
    if failed:
        _check_told_whole(seen, seen.state)
        rerun_from = tuple(name for name in seen.graph.place if _has_failed(before.get(name)))
        if not rerun_from:
            raise Conflict(
                f"No node of {seen.run_id} has failed", pointer="/failed", hint="Say from which node, or run all again"
            )
    kept = kept_nodes(seen.graph, before, rerun_from)
    names = seen.graph.place
    return Plan(tuple(name for name in names if name not in kept), tuple(kept), begins=tuple(rerun_from))


def act_on(kind: CommandKind, seen: DagRunSeen, asked: Asked) -> Command:
    """The command that cancels, pauses or resumes it."""
    return Command(
        kind,
        seen.row.job_id,
        asked.command_id,
        asked.actor,
        asked.at,
        note=asked.note,
        answer=True,
        run_id=str(seen.run_id),
    )


def rerun_of(seen: DagRunSeen, rerun_from: tuple[str, ...], asked: Asked, payload: bytes | None = None) -> Command:
    """The command that runs it again, of the same version."""
    command = act_on(CommandKind.RERUN, seen, asked)
    return command._replace(to_revision=seen.row.revision, rerun_from=rerun_from, payload=payload)


def _check_told_whole(seen: DagRunSeen, state: DagRunState) -> None:
    """Its own row may be written before those of its nodes: what failed cannot be told from some of them."""
    has_open = any(row.status not in FINAL for row in seen.nodes.values())
    by_itself = seen.row.status is RunStatus.SUCCEEDED or seen.row.reason.startswith(NODES_FAILED)
    if has_open or (by_itself and None in state.ends):
        raise Conflict(
            f"History does not tell yet how all nodes of {seen.run_id} have ended",
            pointer="/failed",
            hint="Ask again in a moment, or say from which nodes",
        )


def _has_failed(node: NodeState | None) -> bool:
    return node is not None and node.end is NodeEnd.FAILED


def _check_open(seen: DagRunSeen, word: str) -> None:
    if not seen.is_open:
        raise EndedAlready(
            f"{seen.run_id} had ended: {seen.row.status.name}",
            pointer="/run_id",
            hint=f"There is nothing to {word}; a rerun is a new DagRun",
        )


def _check_can_pause(seen: DagRunSeen) -> None:
    if seen.is_held:
        raise Conflict(
            f"{seen.run_id} waits for other runs of its job: it has not begun",
            pointer="/run_id",
            hint="Cancel it, or pause it once it has begun; a pause of its job makes no new fires",
        )
    if seen.is_ending:
        raise Conflict(
            f"{seen.run_id} is to end ({seen.row.reason or 'cancelled'})",
            pointer="/run_id",
            hint="No node of it begins any more; what runs is waited for",
        )
