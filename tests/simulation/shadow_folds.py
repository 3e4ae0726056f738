"""The same as ``shadow.py`` for who folds run-events: retry routers and DAG engines, after each round that has landed.

Not recorders: they commit behind what they have read, so the two stand at one place only when all is quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from waterclock.dag_engine.loop import DagEngine
from waterclock.retry_router.loop import RetryRouter
from waterclock.retry_router.shard import Wanted
from waterclock.retry_router.trail import trail_of

from tests.part_by_part import all_at_once
from tests.simulation.shadow import Shadows, difference
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, LostResource, RequestError
from waterclock.model.events import RunEvent
from waterclock.wire.codec import decode_event

Take = Callable[[Any, RunEvent, int], None]
Knows = Callable[[Any], dict[str, Any]]


def by_router(shard: Any) -> dict[str, Any]:
    """Of each open run its state, its story and where it began."""
    return {run_id: (run.state, trail_of(run.note), run.first_offset) for run_id, run in shard.fold.open.items()} | {
        "repairs": shard.repairs
    }


def by_engine(shard: Any) -> dict[str, Any]:
    """Of each open DagRun its state, what was told of it, and its nodes, open and ended."""
    found: dict[str, Any] = {run_id: run.state for run_id, run in shard.fold.open.items()}
    for run_id, dag in shard.dags.items():
        nodes = dag.run.dag
        told = (dag.revision, dag.fire_at, dag.first_offset, dag.began_at, dag.linked_run, dag.start.rerun_from)
        found[run_id] = (dag.run.state, told, nodes and (set(nodes.open), set(nodes.ended), nodes.running))
    return found


def compare(shadows: Shadows, role: Any, take: Take, knows: Knows) -> None:
    """Each live shard of this role, which has just committed."""
    clean = MemoryLog(role._log.cluster, "outside")
    for shard in role._shards.values():
        if not shard.live or shard.committed is None or shard.committed.offset != shard.next_offset:
            continue
        if shard.fold.position > shard.next_offset:
            continue
        if not shadows.looks_at(role._consumer, shard.partition, shard.committed):
            continue
        try:
            with mock.patch.object(role, "_log", clean):
                successor = all_at_once(role._taken(shard.partition, shard.committed))
            start = successor.next_offset
            for record in read_range(clean, Isolation.COMMITTED, shard.partition, start, shard.next_offset):
                try:
                    take(successor, decode_event(record.value or b""), record.offset)
                except RequestError:
                    continue
        except (BackendDown, LostResource):
            shadows.met["hidden"] += 1
            continue
        mine, theirs = knows(shard), knows(successor)
        name = type(role).__name__
        shadows.met.update({name: len(mine) > 1, f"{name} kept": shard.next_offset > start > 0})
        if mine != theirs:
            shadows.odd.append(f"{name} of {shard.partition.partition}: {difference(mine, theirs)}")


def take_of_router(shard: Any, event: RunEvent, offset: int) -> None:
    """Whatever it asks for was answered."""
    shard.take(event, offset, Wanted())


def take_of_engine(shard: Any, event: RunEvent, offset: int) -> None:
    """As its loop does."""
    shard.take(event, offset)


@contextmanager
def folds_shadowed(shadows: Shadows) -> Iterator[None]:
    """For the time of a play."""
    with (
        _after_commit(RetryRouter, partial(compare, shadows, take=take_of_router, knows=by_router)),
        _after_commit(DagEngine, partial(compare, shadows, take=take_of_engine, knows=by_engine)),
    ):
        yield


@contextmanager
def _after_commit(core: type, look: Callable[[Any], None]) -> Iterator[None]:
    commit = core._commit

    def committing(role: Any, draft: Any) -> bool:
        said = not draft.empty
        found: bool = commit(role, draft)
        if said or found:
            look(role)
        return found

    with mock.patch.object(core, "_commit", committing):
        yield
