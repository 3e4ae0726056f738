"""Jobs whose schedules cannot be read any more: their shard goes on, and a line names them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.unit.dispatcher_world import World, every
from waterclock.model import schedule, untellable
from waterclock.model.cron import CronSpec
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Cron, JobSpec


def test_a_job_whose_fires_can_be_told_no_longer_stops_no_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a schedule that does not compile any more, when its shard jumps over a backlog, the others go on."""
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:odd", JobSpec("demo.noop", Cron("* * * * *", zone="Asia/Kathmandu")))
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(2)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(300 * US_PER_S)

    def forgotten(cron: Cron, job_id: str = "") -> CronSpec:
        raise RequestError(f"{cron.zone} is not known", pointer="/zone")

    for module in (untellable, schedule):
        monkeypatch.setattr(module, "compile_cron", forgotten)
    world.dispatcher = world.start()
    with capture_logs() as logs:
        world.run(30, 0.1)
    assert next(each["job_id"] for each in logs if each["event"] == "due row cannot be served") == "t:odd"
    assert world.dispatcher._shards[0].gaps == ()
    assert len(set(world.runs("t:beat"))) > 4
