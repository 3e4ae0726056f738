"""The shapes of DagRuns, for the OpenAPI document: see ``shapes.py``."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from . import shapes, wanting
from .part_shapes import CLOSED
from .shapes import Instant

_Status: TypeAlias = Literal["PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
_End: TypeAlias = Literal["SUCCEEDED", "FAILED", "SKIPPED", "UPSTREAM_FAILED"]
_Json: TypeAlias = Any


class DagRun(BaseModel):
    """One firing of a job that is a Dag, as history has it."""

    run_id: str = Field(examples=["default:nightly@20261121T050000Z"])
    job_id: str
    status: _Status
    fire_time: Instant | None
    made_by: str
    revision: int
    paused: bool = Field(description="None of its nodes begins; what runs goes on")
    cancel_requested: bool
    dispatched_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    took_s: float | None = Field(description="From when it went out to its end")
    reason: str | None
    held: str | None = Field(description="While it is PENDING: why it waits for others (overlap, concurrency)")
    linked_run: str | None = Field(description="Of a rerun: the DagRun that it runs again")
    triggered_by: str | None = Field(description="The run by whose end it was started")
    rerun_from: list[str] = Field(description="Of a rerun: the nodes that it began with; none: all of it")


class DagRunNode(BaseModel):
    """One node of a DagRun; a mapped one as a whole."""

    node: str
    status: _Status | None = Field(description="null: it has not come to its turn, or never will")
    counts_as: _End | None = Field(description="For those behind it, once it has ended")
    run_id: str | None = Field(description="Of a mapped node: the item to look at first")
    after: list[str]
    trigger_rule: str
    handler: str
    pool: str
    attempt: int | None
    began_at: Instant | None = Field(description="When it was released, or passed over")
    started_at: Instant | None
    ended_at: Instant | None
    took_s: float | None = Field(description="From its release to its end, or until now")
    critical: bool = Field(description="On the way that took longest")
    items: dict[str, int] | None = Field(description="Of a mapped node: how many items stand how")
    result: _Json = Field(description="null also where it is longer than 1 KiB")
    result_left_out: bool
    error: str | None
    reason: str | None
    next_attempt_at: Instant | None
    waits_for: str | None


class StuckNode(BaseModel):
    """A node that somebody should look at."""

    run_id: str = Field(description="Of the DagRun")
    node: str = Field(description='"": the DagRun itself')
    reason: Literal["awaits-verdict", "no-worker", "limit-reached", "paused", "not-released", "not-ended"]
    since: Instant | None
    why: str
    behind: int = Field(description="Nodes that wait for it, directly or not")


class DagRunInFull(DagRun):
    """A DagRun with its nodes."""

    nodes: list[DagRunNode] = Field(description="In the order of the Dag; empty where its version is gone")
    critical_path: list[str]
    stuck: list[StuckNode]


class DagRunPage(BaseModel):
    """One page of DagRuns, newest fire first. It may hold fewer than `limit` and go on all the same."""

    dag_runs: list[DagRun]
    next_cursor: str | None


class NodeRunPage(BaseModel):
    """One page of node runs, in the order of their keys."""

    nodes: list[shapes.Run]
    next_cursor: str | None


class StuckPage(BaseModel):
    """What is stuck among open DagRuns."""

    stuck: list[StuckNode]
    looked_at: int = Field(description="Open DagRuns")
    next_cursor: str | None = Field(description="There are more open DagRuns to be looked at")


class DagPlan(BaseModel):
    """What an act comes to, by names of nodes, as history shows the DagRun now."""

    dry_run: Literal[True]
    run_id: str
    runs: list[str] = Field(description="Will run, or are decided anew")
    kept: list[str] = Field(description="Of a rerun: stay as they were")
    begins: list[str] = Field(description="Of a rerun: the nodes that it begins with; none: all of it")
    stopped: list[str] = Field(description="Are under way, and asked to stop")
    never: list[str] = Field(description="Will not begin; of a pause: for as long as it lasts")
    goes_on: list[str] = Field(description="Are under way, and are not touched")


class DagRunActed(BaseModel):
    """What is known of the DagRun now."""

    run_id: str
    status: _Status
    paused: bool
    cancel_requested: bool


class ActAnswer(RootModel[DagRunActed | DagPlan]):
    """What is known of the DagRun now; with `dry_run` what it would come to."""


class Rerun(BaseModel):
    """The DagRun that was made."""

    job_id: str
    run_id: str
    linked_run: str
    held: str | None = Field(description="Why it waits (overlap, concurrency); null: it does not")
    skipped: str | None = Field(description="Why it was dropped (overlap) and will never run; null: it was not")


class ActBody(BaseModel):
    """Why, for those who read it later."""

    model_config = CLOSED
    note: str = Field("", max_length=wanting.NOTE_MAX)
    dry_run: bool = Field(False, description="Say what it comes to, and do nothing")


class RerunBody(BaseModel):
    """What to run again: all of it, or from some nodes on, or from those that failed on."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    begin_with: list[str] = Field([], alias="from", max_length=1_000, description="Names of nodes; none: all of it")
    failed: bool = Field(False, description="Begin with the nodes that failed")
    payload: _Json = Field(None, description="In place of the older DagRun's")
    payload_base64: str | None = None
    note: str = Field("", max_length=wanting.NOTE_MAX)
    dry_run: bool = Field(False, description="Say which nodes would run, and do nothing")


BODIES: tuple[type[BaseModel], ...] = (ActBody, RerunBody)
