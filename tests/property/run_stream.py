"""Random run events of one partition that carry runs on: a DagRun with nodes, and others; for take-overs between them.

None that the fold's limits speak of: a second birth of a run that is not held, a birth in a range that was skipped, an
end of a DagRun that is claimed while a node is open.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.property.test_dag_reduce_oracle import BIRTHS, DAG_RUN, ENDS, IDS, JOB, KINDS, NODES, OTHER, Draft, written
from waterclock.model.dag_events import DagStart
from waterclock.model.events import (
    Ended,
    EventKind,
    Origin,
    Pending,
    Retrying,
    RunEvent,
    Skipped,
    Started,
)
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, parse_run_id
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState

HELD_OTHERS = (OTHER, f"{JOB}@20261124T090000Z")
FIRES = {run_id: parse_run_id(run_id).fire_at for run_id in (*IDS, *HELD_OTHERS)}
RUNS = (*NODES, *NODES, *NODES, *IDS, *HELD_OTHERS)
BEGAN_AT = 1_795_000_000 * US_PER_S
WITH_REASON = {EventKind.HELD, EventKind.RUN_FAILED, EventKind.RUN_EXPIRED, EventKind.CANCEL_REQUESTED}


class Place(NamedTuple):
    """What a round has committed: where the partition stands, and from where a successor reads."""

    position: int = 0
    read_from: int = 0


class RunStream:
    """What comes next, by a seed, and by what one knows who has read everything (``fold``)."""

    def __init__(self, dice: Random, fold: Fold[object]) -> None:
        self._dice = dice
        self._fold = fold
        self._born: set[str] = set()
        self._offset = -1
        self._first: list[EventKind] = [EventKind.HELD, EventKind.PENDING][dice.randint(0, 1) :]

    def next(self) -> RunEvent | None:
        """The event of the next offset; None: the dice named one that a limit speaks of, ask again."""
        event = self._first_of_dag() if self._first else self._any()
        if event is None:
            return None
        self._offset += 1
        if event.kind in BIRTHS:
            self._born.add(event.run_id)
        if isinstance(event.detail, Skipped):
            self._born.update(
                run_id for run_id, at in FIRES.items() if event.detail.from_at <= at <= event.detail.to_at
            )
        return event

    def _first_of_dag(self) -> RunEvent:
        at = BEGAN_AT + (self._offset + 2) * US_PER_S
        return self._detailed(RunEvent(self._first.pop(0), JOB, DAG_RUN, at), None)

    def _any(self) -> RunEvent | None:
        dice, fold = self._dice, self._fold
        run_id = dice.choice(RUNS)
        kind = dice.choice(KINDS) if dice.random() < 0.2 else None
        if run_id in HELD_OTHERS and run_id not in self._born and dice.random() < 0.5:
            kind = EventKind.HELD
        state = fold.state(run_id)
        event = written(Draft(run_id, kind, dice.randint(0, 3), dice.random() < 0.7), state, self._offset + 1)
        if event.kind in BIRTHS and run_id in self._born and not (state is not None and state.held):
            return None
        if event.kind in ENDS and any((node := fold.state(each)) and not node.final for each in NODES):
            return None
        return self._detailed(event._replace(at=BEGAN_AT + (self._offset + 2) * US_PER_S), state)

    def _detailed(self, event: RunEvent, state: RunState | None) -> RunEvent:
        """With what the roles write beside the kind."""
        dice, kind = self._dice, event.kind
        if kind in WITH_REASON:
            event = event._replace(reason=f"because of {self._offset}")
        if kind in (EventKind.PENDING, EventKind.HELD):
            return event._replace(detail=self._made(event))
        if kind is EventKind.SKIPPED:
            fire_at = FIRES[event.run_id]
            to_at = dice.choice([fire_at, max(FIRES.values())])
            if "/" in event.run_id or any(run.state.held for run in self._fold.open.values()):
                to_at = fire_at  # a range is of fires, and the timeline decided before of what waits
            return event._replace(detail=Skipped(1, fire_at, to_at, 1 + (to_at > fire_at), Tier.HIGH, 5))
        if kind is EventKind.STARTED:
            return event._replace(worker=dice.choice(["w-1", "w-2"]), detail=Started("runs", 0, self._offset))
        if kind is EventKind.RETRYING:
            return event._replace(detail=Retrying(event.at + dice.choice([0, 20]) * US_PER_S, 0))
        if kind.startswith("ATTEMPT_"):
            worker = state.worker if state is not None and dice.random() < 0.9 else event.worker
            what = ("", "") if kind is EventKind.ATTEMPT_SUCCEEDED else ("Broken", f"at {self._offset}")
            return event._replace(worker=worker, detail=Ended(event.at - 5, *what))
        return event

    def _made(self, event: RunEvent) -> Pending:
        dice = self._dice
        queue_us, run_us = dice.choice([(0, 0), (0, 0), (30 * US_PER_S, 0), (0, 90 * US_PER_S), (5, 7)])
        return Pending(
            1,
            FIRES[event.run_id],
            None,
            Tier.HIGH,
            dice.choice([Origin.SCHEDULE, Origin.TRIGGER]),
            queue_timeout_us=queue_us,
            run_timeout_us=run_us,
            dag=DagStart(b"given") if event.run_id == DAG_RUN else None,
            hops=dice.choice([0, 0, 2]),
        )
