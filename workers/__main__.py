"""Wires a worker to the real ports and to the user's handlers: ``python -m waterclock.workers``.

``waterclock worker app:app`` calls ``run`` with an App that it has loaded itself.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from uuid import uuid4

from waterclock.app import App, load_app
from waterclock.clock import SystemClock
from waterclock.leaving import await_threads, leave_after
from waterclock.log.port import Log
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.job import Tier
from waterclock.model.zones import TZDATA_VERSION
from waterclock.process import open_log, run_role
from waterclock.settings import Settings, load_settings
from waterclock.wire.names import Names

from .executors.building import executors_of
from .executors.topic_book import TopicBook
from .incarnation import TwinLives
from .loop import Worker
from .run_logs import Output

_LAST_LINES_S = 2.0
_MARGIN_S = 5.0
_THREADS_S = 2.0
"""A handler's ``asyncio.to_thread`` cannot be stopped, and Python would wait for it."""


def build(app: App, settings: Settings, topics: TopicBook, output: Output) -> Worker:
    """A worker on real Kafka that runs the handlers of ``app``; ``topics`` are what they may emit to.

    What they print goes by ``output``.

    Raises BackendDown, NotFound, RequestError.
    """
    clock, names = SystemClock(), Names(settings.kafka.prefix)
    bounds = settings.worker
    log = open_log(settings, "worker", transaction_timeout_s=bounds.transaction_timeout_s)
    for tier in Tier:
        _check_topic(log, names.runs(tier, bounds.pool), bounds.pool)
    output.begin(log, names, settings.instance_of("worker"))
    return Worker(
        clock,
        log,
        names,
        executors_of(app, settings, clock, topics.exists, capture=output.capture),
        worker=settings.instance_of("worker"),
        process=uuid4().hex,
        slots=bounds.slots,
        pool=bounds.pool,
        generation=settings.generation,
        lease_ttl_s=bounds.lease_ttl_s,
        drain_grace_s=bounds.drain_grace_s,
        cancel_grace_s=bounds.cancel_grace_s,
        round_claims_max=bounds.round_records,
        version=version("waterclock"),
        tzdata=TZDATA_VERSION,
        handlers=app.handlers,
    )


def _check_topic(log: Log, topic: str, pool: str) -> None:
    """Without its topics a worker would wait for ever and look well. Raises NotFound, BackendDown."""
    try:
        log.partitions(topic)
    except NotFound:
        raise NotFound(
            f"There is no pool {pool!r}: the topic {topic} does not exist",
            hint="Add it to `pools` in waterclock.toml (or WATERCLOCK_POOLS) and run `waterclock init` or `up`",
        ) from None


def run(app: App, settings: Settings) -> None:
    """Run the handlers of ``app`` until SIGTERM, then drain. Exits with 1 when a twin has taken the name over,
    where its pool has no topics, and where a setting of its executors is wrong.
    """
    topics = TopicBook(lambda: open_log(settings, "worker"), SystemClock())
    output = Output(SystemClock())
    try:
        drain_s = settings.worker.drain_grace_s + _MARGIN_S
        run_role("worker", lambda given: build(app, given, topics, output), settings, drain_s=drain_s)
    except (TwinLives, RequestError) as end:
        sys.exit(str(end))
    finally:
        output.end(_LAST_LINES_S)
        topics.close()
        await_threads(_THREADS_S)


def main() -> None:
    """The app that the settings name."""
    chosen = load_settings()
    run(load_app(chosen.worker.app), chosen)


if __name__ == "__main__":
    leave_after(main)
