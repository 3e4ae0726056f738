"""Puts tasks into Celery's queue, all over one connection."""

from __future__ import annotations

from datetime import UTC, datetime

from bench.peers.handler import obey
from bench.peers.with_celery.tasks import app, noop


def enqueue(first: int, count: int) -> None:
    """To run now."""
    with app.producer_or_acquire() as producer:
        for index in range(first, first + count):
            noop.apply_async((index,), producer=producer)


def delay(first: int, count: int, at: float) -> None:
    """To run at ``at``: an ETA, which the worker that fetched the task keeps in its memory."""
    eta = datetime.fromtimestamp(at, UTC)
    with app.producer_or_acquire() as producer:
        for index in range(first, first + count):
            noop.apply_async((index,), producer=producer, eta=eta)


obey(enqueue, delay)
