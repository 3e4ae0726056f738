"""What the reducer speaks in: a run's state, the verdict on an event, and why one was refused. Values."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .events import FINAL, Outcome, RunStatus


class Ignored(StrEnum):
    """Why an event was refused: the label ``reason`` of ``waterclock_reducer_ignored_total``. NOT: it was not."""

    NOT = ""
    UNKNOWN_KIND = "unknown-kind"
    UNKNOWN_RUN = "unknown-run"
    KNOWN_RUN = "known-run"
    FINAL = "final"
    HELD = "held"
    NOT_WAITING = "not-waiting"
    NO_OPEN_ATTEMPT = "no-open-attempt"
    WRONG_ATTEMPT = "wrong-attempt"
    WRONG_OWNER = "wrong-owner"
    NO_VERDICT_DUE = "no-verdict-due"
    ALREADY_REQUESTED = "already-requested"
    NOT_PAUSED = "not-paused"
    NO_DAG_RUN = "no-dag-run"
    """Of a node whose DagRun is unknown, or that is no node of a Dag."""
    DAG_RUN_OVER = "dag-run-over"
    """Of a node whose DagRun has ended, or is to end: cancelled, or over its time."""
    NODES_OPEN = "nodes-open"
    """The end of a DagRun of which a node is not final."""
    NOT_OF_NODES = "not-of-nodes"
    NOT_OF_DAG_RUNS = "not-of-dag-runs"
    FOLDED = "folded"
    """Said by a fold, not by the reducer: the state it began with holds this event."""


class RunState(NamedTuple):
    """A run as of some offset.

    ``attempt`` is the last one that started, 0 before the first. ``worker``, ``incarnation`` and ``token`` are those
    of its accepted STARTED, ``outcome`` how it ended (NONE while it is open). ``is_dag``: it is a DagRun, which has no
    attempt. ``expired``: the time of a DagRun is over, and it ends as soon as no attempt of its nodes is open; of such
    a node: it is not tried again. ``paused``: no node of a DagRun is to be released.
    """

    status: RunStatus
    attempt: int = 0
    outcome: Outcome = Outcome.NONE
    worker: str = ""
    incarnation: int = 0
    token: int = 0
    held: bool = False
    cancel_requested: bool = False
    is_dag: bool = False
    expired: bool = False
    paused: bool = False

    @property
    def final(self) -> bool:
        """The status is final: nothing changes it any more."""
        return self.status in FINAL

    @property
    def attempt_open(self) -> bool:
        """An attempt has started and no outcome of it was accepted."""
        return self.status is RunStatus.RUNNING and self.outcome is Outcome.NONE and not self.is_dag

    @property
    def ending(self) -> bool:
        """Of a DagRun: it was cancelled or its time is over; no node may begin, and what runs is waited for."""
        return self.cancel_requested or self.expired

    @property
    def undecided(self) -> bool:
        """The last attempt ended, not well, and the retry router's verdict is not there yet."""
        return self.status is RunStatus.RUNNING and self.outcome is not Outcome.NONE


class Verdict(NamedTuple):
    """What became of one event: the state after it (None: the run is unknown), and why it was refused."""

    state: RunState | None
    accepted: bool
    reason: Ignored = Ignored.NOT


class DagView(NamedTuple):
    """What a fold knows of the DagRun that an event speaks of, or whose node it speaks of.

    ``run``: its state, None where it is unknown. ``open_nodes``: its nodes that are not final; ``open_attempts``: those
    of them that run.
    """

    run: RunState | None
    open_nodes: int = 0
    open_attempts: int = 0


def refuse(state: RunState | None, reason: Ignored) -> Verdict:
    """Unknown and final runs have one reason each, whatever the rule was about to say."""
    if state is None:
        return Verdict(None, False, Ignored.UNKNOWN_RUN)
    return Verdict(state, False, Ignored.FINAL if state.status in FINAL else reason)
