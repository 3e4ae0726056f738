"""Whether a run's worker lives, for a person who asks: told by the log, and by nothing that cannot be read."""

from __future__ import annotations

from waterclock.clock import ManualClock
from waterclock.commands.liveness import judge
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Outgoing
from waterclock.model.events import Origin, Outcome, RunStatus
from waterclock.model.ids import ordinal
from waterclock.model.job import Tier
from waterclock.store.port import RunRow
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
JOB = "acme:nightly"


def test_a_claim_that_cannot_be_read_judges_nobody() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    for spec in topic_specs(NAMES, 1):
        cluster.create_topic(spec.name, spec.partitions)
    log = MemoryLog(cluster, "person")
    offset = log.appender().append(Outgoing(NAMES.run_events, JOB.encode(), b"no record of ours")).offset
    assert offset is not None
    now = clock.now()
    row = RunRow(JOB, now, 0, 1, Tier.HIGH, Origin.SCHEDULE, RunStatus.RUNNING, Outcome.NONE, 1, now, now, 0, "w-1",
                 ordinal(1, offset), "", None, "", "UTC", "2026a", 0, 0, now)  # fmt: skip
    found = judge(log, NAMES, row, lease_ttl_s=15.0, now=now)
    assert (found.alive, "nothing is known" in found.why) == (True, True)
