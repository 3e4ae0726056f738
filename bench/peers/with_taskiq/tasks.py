"""Taskiq on streams of Redis, the broker of its that acknowledges, and its scheduler."""

from __future__ import annotations

from taskiq import TaskiqScheduler
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from bench.peers import handler

broker = RedisStreamBroker(handler.SERVER, consumer_id="0", xread_count=500).with_serializer(ORJSONSerializer())
source = ListRedisScheduleSource(handler.SERVER)
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop(index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)
