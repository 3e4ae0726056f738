"""A worker of Temporal."""

from __future__ import annotations

import asyncio

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers.handler import SERVER
from bench.peers.with_temporal.work import QUEUE, Once, noop


async def work() -> None:
    """Until it is ended."""
    client = await Client.connect(SERVER)
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Once],
        activities=[noop],
        # The sandbox imports the workflow anew for each run.
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=200,
        max_concurrent_workflow_tasks=200,
        max_concurrent_workflow_task_polls=10,
        max_concurrent_activity_task_polls=10,
    )
    await worker.run()


asyncio.run(work())
