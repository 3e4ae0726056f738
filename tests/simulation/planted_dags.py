"""Bugs of Dags: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from waterclock.dag_engine.kept import KeptDags
from waterclock.dag_engine.loop import DagEngine
from waterclock.dag_engine.open_dag import OpenDag
from waterclock.dag_engine.shard import Shard

from waterclock.model import dag_release
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_release import DagRunState
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import split_node_run_id
from waterclock.model.events import Pending, RunEvent
from waterclock.model.run_state import RunState
from waterclock.recorder import batch
from waterclock.recorder.batch import Batch
from waterclock.store.dag_port import NodeRow
from waterclock.transact import Round, Rounds

from .planted_failures import Planted


@contextmanager
def released_on_an_attempt() -> Iterator[None]:
    """A node whose attempt failed counts as failed, whatever the retry router makes of it."""

    def follow_node(self: Shard, event: RunEvent, state: RunState) -> None:
        right(self, event, state)
        dag_run_id, key = split_node_run_id(event.run_id)
        if state.undecided and dag_run_id in self.dags:
            self._note(self.dags[dag_run_id], event.run_id, key, NodeState(NodeEnd.FAILED))

    right = Shard._follow_node
    with mock.patch.object(Shard, "_follow_node", follow_node):
        yield


@contextmanager
def ages_while_held() -> Iterator[None]:
    """The age of a DagRun that waited for others counts from when it began to wait."""

    def told(self: OpenDag, event: RunEvent, pending: Pending, offset: int) -> None:
        held_at = self.began_at
        right(self, event, pending, offset)
        self.began_at = held_at or self.began_at

    right = OpenDag.told
    with mock.patch.object(OpenDag, "told", told):
        yield


@contextmanager
def state_after_offsets() -> Iterator[None]:
    """What the state topic is told goes out in a transaction of its own, after the one with the offsets."""
    commit = Rounds.commit

    def commit_twice(self: Rounds, draft: Round) -> None:
        kept = [message for message in draft.messages if message.topic.endswith("state.dag-engine")]
        if not kept:
            commit(self, draft)
            return
        apart = Round(draft.epoch)
        apart.messages = kept
        draft.messages = [message for message in draft.messages if message not in kept]
        commit(self, draft)
        commit(self, apart)

    with mock.patch.object(Rounds, "commit", commit_twice):
        yield


@contextmanager
def log_not_read_to_its_end() -> Iterator[None]:
    """A successor decides by what the state topic holds, before it has read what its predecessor has released since."""
    right = DagEngine._take_all

    def take_all(self: DagEngine) -> Iterator[None]:
        taken = {place.partition for place in self._taking_over.places}
        yield from right(self)
        for partition in taken:
            self._shards[partition].live = True
        if taken:
            self._learn_versions()
            self._answer(is_behind=False)
            self._learn_versions()
            self._answer(is_behind=False)

    with mock.patch.object(DagEngine, "_take_all", take_all):
        yield


@contextmanager
def results_not_kept() -> Iterator[None]:
    """What a successor knows of nodes that have ended is how, and not what they have made."""
    right = KeptDags.change

    def change(self: KeptDags, run_id: str, offset: int, node: NodeState | None = None) -> None:
        right(self, run_id, offset, None if node is None else node._replace(result=None))

    with mock.patch.object(KeptDags, "change", change):
        yield


@contextmanager
def results_taken_for_none() -> Iterator[None]:
    """A result that was not kept counts as none: a branch leads nowhere, and whoever takes it is given null."""
    right = Shard._note

    def note(self: Shard, dag: OpenDag, node_id: str, key: str, node: NodeState) -> None:
        right(self, dag, node_id, key, node._replace(result=node.result or None))

    with mock.patch.object(Shard, "_note", note):
        yield


@contextmanager
def ends_that_hold_nothing_back() -> Iterator[None]:
    """A successor does not read again what is in no record yet of nodes that have ended."""
    with mock.patch.object(KeptDags, "read_from", None):
        yield


@contextmanager
def under_way_not_counted() -> Iterator[None]:
    """A successor does not count the nodes that were under way already towards the limits."""
    right = dag_release.rebuild

    def rebuild(*words: Any) -> DagRunState:
        state = right(*words)
        state.active = 0
        return state

    with mock.patch("waterclock.dag_engine.open_dag.rebuild", rebuild):
        yield


@contextmanager
def ended_forgotten() -> Iterator[None]:
    """A successor begins without the nodes that have ended: they begin once more."""
    right = OpenDag.begin

    def begin(self: OpenDag, made: Any) -> bool:
        self.known = {key: node for key, node in self.known.items() if node.end is None}
        return right(self, made)

    with mock.patch.object(OpenDag, "begin", begin):
        yield


@contextmanager
def pause_holds_nothing() -> Iterator[None]:
    """A DagRun that is paused goes on all the same."""
    with mock.patch.object(OpenDag, "can_release", OpenDag.is_going):
        yield


@contextmanager
def time_not_watched() -> Iterator[None]:
    """A DagRun may get as old as it likes."""
    with mock.patch.object(Shard, "note_deadline", return_value=None):
        yield


@contextmanager
def nodes_left_behind_in_history() -> Iterator[None]:
    """The recorder does not follow what an event of a DagRun makes of its nodes: cancelled ones seem to wait."""
    right = Batch._follow_touched

    def follow_touched(self: Batch, shard: Any, event: RunEvent) -> None:
        shard.fold.touched = [each for each in shard.fold.touched if "/" not in each[0]]
        right(self, shard, event)

    with mock.patch.object(Batch, "_follow_touched", follow_touched):
        yield


@contextmanager
def results_not_in_history() -> Iterator[None]:
    """The rows of nodes are without their results: what was mapped over one cannot be understood any more."""
    right = batch.node_row

    def node_row(*words: Any) -> NodeRow:
        return right(*words)._replace(result=None)

    with mock.patch.object(batch, "node_row", node_row):
        yield


PLANTED_DAGS: dict[str, Planted] = {
    "child released on an attempt that is retried": released_on_an_attempt,
    "state of Dags written after the offsets": state_after_offsets,
    "child released twice after a take-over": log_not_read_to_its_end,
    "results of nodes not kept": results_not_kept,
    "result that was not kept taken for none": results_taken_for_none,
    "ends of nodes in no record and not read again": ends_that_hold_nothing_back,
    "nodes under way not counted after a take-over": under_way_not_counted,
    "ended nodes forgotten at a take-over": ended_forgotten,
    "pause of a DagRun holds nothing": pause_holds_nothing,
    "time-out of a DagRun not watched": time_not_watched,
    "age of a DagRun counts from before it went out": ages_while_held,
    "nodes left behind in history": nodes_left_behind_in_history,
    "results of nodes not in history": results_not_in_history,
}
