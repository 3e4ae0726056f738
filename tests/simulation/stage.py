"""What stands while a plan is played: the product's constants as the plan has them, and silence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import structlog
from waterclock.dispatcher import bucket_walk, keys, rebuild, window

from waterclock.store import tabular

from .buggify import made_small
from .plan import Plan


@contextmanager
def with_constants(plan: Plan) -> Iterator[None]:
    """Constants of the product that a plan shrinks."""
    with made_small(plan.small), ExitStack() as patches:
        patches.enter_context(mock.patch.object(window, "SLOTS_PER_SLICE", plan.slots_per_slice))
        patches.enter_context(mock.patch.object(tabular, "DUE_KEPT_US", plan.rows_kept_us))
        patches.enter_context(mock.patch.object(rebuild, "REBUILD_AFTER_US", plan.rows_kept_us * 2 // 3))
        patches.enter_context(mock.patch.object(rebuild, "SLEPT_US", plan.rows_kept_us // 6))
        # A walk that finds its pace first takes as many turns as a play has.
        patches.enter_context(mock.patch.object(bucket_walk, "BUCKETS_MIN", 8 * plan.slots_per_slice))
        patches.enter_context(mock.patch.object(keys, "WITHIN_US", plan.repeat_within_us))
        patches.enter_context(mock.patch.object(keys, "_GRACE_US", plan.repeat_within_us // 100))
        yield


@contextmanager
def silenced() -> Iterator[None]:
    """Roles log nothing while they are played: their story is told by what they call."""
    before = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
