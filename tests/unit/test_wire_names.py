"""Names are on-disk format, and topics are made as they must be."""

from __future__ import annotations

import re

import pytest

from waterclock.model.errors import RequestError
from waterclock.model.job import Tier
from waterclock.wire.names import Names, topic_specs

DAY_MS = 86_400_000


def test_names_are_kept() -> None:
    names = Names()
    assert names.commands == "waterclock.commands"
    assert names.run_events == "waterclock.run-events"
    assert names.runs(Tier.HIGH) == "waterclock.runs.high"
    assert names.runs(Tier.LOW, "gpu") == "waterclock.runs.low.gpu"
    assert names.state("dag_engine") == "waterclock.state.dag-engine"
    assert names.group("retry_router") == "waterclock.retry-router"
    assert names.worker_group(Tier.MEDIUM) == "waterclock.workers.medium"
    assert names.worker_group(Tier.MEDIUM, "gpu") == "waterclock.workers.medium.gpu"
    assert names.transactional_id("dispatcher", "dispatcher-1") == "waterclock.dispatcher.dispatcher-1"
    assert names.client_id("dispatcher", "box-1") == "waterclock-dispatcher-box-1"


def test_one_prefix_covers_every_name() -> None:
    names = Names("t9.x")
    every = [spec.name for spec in topic_specs(names, 4, ("default", "gpu"))]
    every += [names.job_events, names.group("recorder"), names.worker_group(Tier.LOW), names.transactional_id("w", "1")]
    assert all(name.startswith("t9.x.") for name in every)


@pytest.mark.parametrize("prefix", ["", "Water", "a_b", "a b", ".a", "a" * 65, "ä"])
def test_a_prefix_that_kafka_or_its_metrics_would_garble_is_refused(prefix: str) -> None:
    with pytest.raises(RequestError):
        Names(prefix)


def test_topics_are_made_as_the_protocol_needs_them() -> None:
    specs = {spec.name.removeprefix("waterclock."): spec for spec in topic_specs(Names(), 8)}
    assert set(specs) == {
        "job-events",
        "commands",
        "run-events",
        "runs.high",
        "runs.medium",
        "runs.low",
        "control",
        "leases",
        "heartbeats",
        "dlq",
        "rejects",
        "run-logs",
        *(f"delay.{rung}" for rung in ("1s", "5s", "30s", "2m", "10m", "1h")),
        "state.dag-engine",
        "state.dispatcher",
        "state.recorder",
        "state.retry-router",
        "triggers",
    }
    assert {spec.partitions for name, spec in specs.items() if name != "triggers"} == {8}
    assert specs["triggers"].partitions == 1
    assert {spec.config["max.message.bytes"] for spec in specs.values()} == {"1048576"}
    compacted = {name for name, spec in specs.items() if spec.config["cleanup.policy"] == "compact"}
    of_roles = {f"state.{role}" for role in ("dispatcher", "retry-router", "dag-engine", "recorder")}
    assert compacted == {"leases", "triggers"} | of_roles
    stamped = {name for name, spec in specs.items() if spec.config.get("message.timestamp.type") == "LogAppendTime"}
    assert stamped == {"commands"}
    days = {name: int(spec.config["retention.ms"]) / DAY_MS for name, spec in specs.items() if name not in compacted}
    assert days == {
        "job-events": 7,
        "commands": 30,
        "run-events": 30,
        "runs.high": 7,
        "runs.medium": 7,
        "runs.low": 7,
        "control": 15,
        "heartbeats": 1,
        "dlq": 30,
        "rejects": 30,
        "run-logs": 7,
        **{f"delay.{rung}": 7 for rung in ("1s", "5s", "30s", "2m", "10m", "1h")},
    }


def test_a_cancel_stands_for_as_long_as_its_work_may() -> None:
    """Brokers remove whole segments: one may stand a week (``segment.ms``) beyond its time."""
    config = {spec.name: spec.config for spec in topic_specs(Names(), 4, ("default", "gpu"))}
    a_week_ms = 7 * DAY_MS
    assert all("segment.ms" not in each for each in config.values()), "it is the brokers' default"
    for topic in (topic for topic in config if ".runs." in topic):
        assert int(config["waterclock.control"]["retention.ms"]) > int(config[topic]["retention.ms"]) + a_week_ms


def test_no_topic_loses_by_its_size_what_its_time_keeps() -> None:
    """Brokers may have ``log.retention.bytes`` for every topic that says nothing: a backlog of work would go."""
    kept = [spec.config for spec in topic_specs(Names(), 4) if "retention.ms" in spec.config]
    assert {config.get("retention.bytes") for config in kept} == {"-1"}


def test_what_strangers_pack_is_unpacked_by_the_broker_and_not_by_us() -> None:
    plain = [spec.name for spec in topic_specs(Names(), 4) if spec.config.get("compression.type") == "uncompressed"]
    assert plain == ["waterclock.job-events"]


def test_a_pool_has_topics_of_its_own() -> None:
    names = [spec.name for spec in topic_specs(Names(), 4, ("default", "gpu"))]
    assert {"waterclock.runs.high", "waterclock.runs.high.gpu"} <= set(names)
    assert len(names) == len(set(names))


def test_pools_that_would_take_each_others_work_are_refused() -> None:
    assert Names().runs(Tier.LOW, "gpu_1") == Names().runs(Tier.LOW, "gpu-1")
    with pytest.raises(RequestError, match="'gpu-1' and 'gpu_1' would have the same topics"):
        topic_specs(Names(), 4, ("default", "gpu-1", "gpu_1"))
    assert topic_specs(Names(), 4, ("default", "gpu_1", "gpu_1")) == topic_specs(Names(), 4, ("default", "gpu_1"))


@pytest.mark.parametrize("partitions", [-4, 0, 3, 6, 512])
def test_a_partition_count_that_would_tear_slots_apart_is_refused(partitions: int) -> None:
    with pytest.raises(RequestError):
        topic_specs(Names(), partitions)


def test_no_name_of_ours_has_an_underscore() -> None:
    assert all(re.fullmatch(r"[a-z0-9.-]+", spec.name) for spec in topic_specs(Names(), 4))
