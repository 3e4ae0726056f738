"""More processes of a role than partitions: the others stand by, and say that they are ready to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import pytest
from waterclock.dag_engine.loop import DagEngine
from waterclock.retry_router.keeper import Keeper
from waterclock.retry_router.ladder import Ladder
from waterclock.retry_router.loop import RetryRouter

from waterclock.clock import ManualClock
from waterclock.intake.judge import Judge
from waterclock.intake.loop import Intake
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.process import Ready
from waterclock.recorder.loop import Recorder
from waterclock.recorder.run_logs import RunLogs
from waterclock.store.memory import MemoryStore
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
TENANTS = {NAMES.job_events: "default"}
Make = Callable[[MemoryLog, ManualClock, str], Ready]
ROLES: Mapping[str, Make] = {
    "retry router": lambda log, clock, name: RetryRouter(log, clock, NAMES, name),
    "lease keeper": lambda log, clock, name: Keeper(log, clock, NAMES, name),
    "retry ladder": lambda log, clock, name: Ladder(log, clock, NAMES, name),
    "dag engine": lambda log, clock, name: DagEngine(log, MemoryStore(clock), clock, NAMES, name),
    "recorder": lambda log, clock, name: Recorder(log, MemoryStore(clock), clock, NAMES, name),
    "lines": lambda log, clock, name: RunLogs(log, MemoryStore(clock), clock, NAMES, name),
    "intake": lambda log, clock, name: Intake(log, clock, NAMES, name, cast("Judge", None), tenants=TENANTS),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_process_for_which_no_partition_is_left_is_ready_all_the_same(role: str) -> None:
    """Given a probe that waits for the ready file, then it does not kill who stands by, or hold up the next one."""
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    for spec in topic_specs(NAMES, 1):
        cluster.create_topic(spec.name, spec.partitions, compact=spec.config.get("cleanup.policy") == "compact")
    cores = [ROLES[role](MemoryLog(cluster, name), clock, name) for name in ("one", "two")]
    assert not any(core.ready for core in cores), "nobody has joined yet"
    for _ in range(50):
        for core in cores:
            core.step()
        clock.advance(200_000)
    assert [core.ready for core in cores] == [True, True]
