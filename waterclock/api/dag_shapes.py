"""The shape of a Dag in a job's definition."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from .part_shapes import CLOSED, DURATION, GrpcCall, HttpCall, KafkaRecord, Retry, ShellCommand, Timeouts

_NODE = r"^[a-z0-9][a-z0-9_-]{0,54}$"


class NodeMap(BaseModel):
    """What a node is run over, once for each item: a list, the result of a node before it, or a count."""

    model_config = CLOSED
    over: list[Any] | str | None = Field(None, description="Items, or the node whose result is the list")
    count: int | None = Field(None, ge=1, le=10_000)
    max: int | None = Field(None, ge=1, le=10_000, description="Items in a node's result at most; else 1,000")
    concurrency: int | None = Field(None, ge=1, le=10_000, description="Items under way at once; else all")


class Node(BaseModel):
    """One node: one way to its work, and what it waits for. What it leaves out is the job's."""

    model_config = CLOSED
    name: str = Field(pattern=_NODE)
    handler: str | None = None
    callback_url: str | None = None
    http: HttpCall | None = None
    grpc: GrpcCall | None = None
    shell: ShellCommand | None = None
    kafka: KafkaRecord | None = None
    after: list[str] = Field([], description="Its parents")
    trigger_rule: Literal[
        "all_success",
        "all_failed",
        "all_done",
        "all_done_min_one_success",
        "all_skipped",
        "one_success",
        "one_failed",
        "one_done",
        "none_failed",
        "none_failed_min_one_success",
        "none_skipped",
        "always",
    ] = "all_success"
    inputs: list[str] = Field([], max_length=64, description="Nodes before it whose results it is given")
    map: NodeMap | None = None
    branch: bool = Field(False, description="Its result names the children to follow; the others are skipped")
    tier: Literal["high", "medium", "low"] | None = None
    priority: str | None = None
    pool: str | None = None
    payload: Any = None
    payload_base64: str | None = None
    at_most_once: bool = False
    retry: Retry | bool | None = None
    timeouts: Timeouts | None = None


class Dag(BaseModel):
    """A Dag: nodes that wait for each other. A graph without cycles, which is checked when it is saved."""

    model_config = CLOSED
    nodes: list[Node] = Field(min_length=1, max_length=1_000)
    max_active_nodes: int | None = Field(None, ge=1, le=10_000, description="Node runs of a DagRun under way at once")
    timeout: str | None = Field(None, pattern=DURATION, description="How old a DagRun may get")
