"""The records of runs that stay open for long move on with their partition, however many there are."""

from __future__ import annotations

from waterclock.dispatcher import releasing
from waterclock.dispatcher.emit import Emitter, Templates
from waterclock.dispatcher.flow_runs import NEW, Open
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.shard import Shard

from tests.unit.dispatcher_world import NAMES, START
from waterclock.model.concurrency import Concurrency
from waterclock.model.events import Origin
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier

OPEN_COUNT = 1_000


def test_of_a_thousand_runs_that_stay_open_none_pins_a_take_over() -> None:
    """Between two turns the partition moves on by as much as one record may lie behind."""
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    flow = shard.flow
    for job_id in ("t:first", "t:second"):
        job = flow.job(job_id, Concurrency(max_concurrent=1_000))
        for number in range(OPEN_COUNT // 2):
            fire_at = START + number * US_PER_S
            kept = RunFlow(make_run_id(job_id, fire_at), "", fire_at, 1, Tier.MEDIUM, Origin.SCHEDULE)
            flow.opened(job, Open(kept, NEW))
    turns = 20
    for _ in range(turns):
        flow.position += releasing.KEPT_BEHIND + 1
        releasing.keep_up(shard, Emitter(Templates(NAMES)))
    oldest = min(run.kept.folded_to for job in flow.jobs.values() for run in job.open.values())
    assert oldest > (turns - 6) * releasing.KEPT_BEHIND
