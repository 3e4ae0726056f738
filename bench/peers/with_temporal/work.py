"""The work of Temporal: a workflow of one activity, which is the handler."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from bench.peers import handler

QUEUE = "peer"


@activity.defn
async def noop(index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)


@workflow.defn
class Once:
    """Runs the activity once."""

    @workflow.run
    async def run(self, index: int) -> None:
        """The whole workflow."""
        await workflow.execute_activity(noop, index, start_to_close_timeout=timedelta(minutes=1))
