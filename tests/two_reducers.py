"""The product's reducer beside the oracle's, over the same dump: they must come to the same of every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.oracle.runs import MASK
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.fold import Fold
from waterclock.model.reduce import RunState
from waterclock.wire.codec import decode_event

_PARTS = ("status", "attempt", "outcome", "worker", "incarnation", "token")


def differ(meant: Mapping[str, Mapping[str, Any]], events: Iterable[Mapping[str, Any]], generation: int) -> list[str]:
    """Complaints. ``meant``: what ``tests/oracle/runs.py`` made of every run; ``generation``: that of the topics."""
    folds: dict[int, Fold[None]] = {}
    said: dict[str, RunState] = {}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        event = decode_event(record["value"])
        fold = folds.setdefault(record["partition"], Fold(generation=generation))
        state = fold.apply(event, record["offset"]).state
        if event.run_id and state is not None:
            said[event.run_id] = state
        said |= {run_id: run.state for run_id, run in fold.touched}
    ours = {run_id: _parts_of(state) for run_id, state in said.items()}
    theirs = {run_id: tuple(run[part] for part in _PARTS) for run_id, run in meant.items()}
    return [
        f"{run_id}: the oracle says {theirs.get(run_id)}, the product {ours.get(run_id)}"
        for run_id in sorted(theirs.keys() | ours.keys())
        if theirs.get(run_id) != ours.get(run_id)
    ]


def _parts_of(state: RunState) -> tuple[object, ...]:
    token = state.token & MASK if state.attempt else -1
    names = (RunStatus(state.status).name, state.attempt, Outcome(state.outcome).name)
    return (*names, state.worker, state.incarnation, token)
