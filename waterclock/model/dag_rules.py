"""The trigger rules: what becomes of a node, by how many of its parents ended in which way. Pure, one table.

Truth tables of Airflow 3 (its page "Trigger Rules", and what its scheduler does), with one difference: Airflow skips an
``all_success`` node at its first skipped parent, so whether it ends as skipped or as upstream-failed depends on which
parent was quicker. Here a failed parent decides at once and a skipped one at the end, so the order of the ends never
matters: what becomes of a node follows from how its parents ended.

What must hold (a property test): a verdict other than WAIT is never taken back by further parents that end.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from .dag import TriggerRule


class Verdict(Enum):
    """WAIT: it can't be said yet. RUN: it may start. SKIP: it never can. UPSTREAM_FAILED: likewise, by a failure."""

    WAIT = "wait"
    RUN = "run"
    SKIP = "skip"
    UPSTREAM_FAILED = "upstream-failed"


class Ends(NamedTuple):
    """How many parents there are, and how many of them ended in which way. A cancelled node has failed."""

    parents: int
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    upstream_failed: int = 0

    @property
    def bad(self) -> int:
        return self.failed + self.upstream_failed

    @property
    def done(self) -> int:
        return self.succeeded + self.failed + self.skipped + self.upstream_failed

    @property
    def all_done(self) -> bool:
        return self.done >= self.parents


def judge(rule: TriggerRule, ends: Ends) -> Verdict:
    """What the rule says of a node whose parents have ended so. Without parents it may start at once."""
    return _RULES[rule](ends) if ends.parents else Verdict.RUN


_WAIT, _RUN, _SKIP, _FAILED = Verdict.WAIT, Verdict.RUN, Verdict.SKIP, Verdict.UPSTREAM_FAILED


def _all_success(ends: Ends) -> Verdict:
    if ends.bad:
        return _FAILED
    if not ends.all_done:
        return _WAIT
    return _SKIP if ends.skipped else _RUN


def _all_failed(ends: Ends) -> Verdict:
    if ends.succeeded or ends.skipped:
        return _SKIP
    return _RUN if ends.all_done else _WAIT


def _all_done(ends: Ends) -> Verdict:
    return _RUN if ends.all_done else _WAIT


def _all_done_min_one_success(ends: Ends) -> Verdict:
    if ends.skipped:
        return _SKIP
    if not ends.all_done:
        return _WAIT
    return _RUN if ends.succeeded else _FAILED


def _all_skipped(ends: Ends) -> Verdict:
    if ends.succeeded or ends.bad:
        return _SKIP
    return _RUN if ends.all_done else _WAIT


def _one_success(ends: Ends) -> Verdict:
    if ends.succeeded:
        return _RUN
    if not ends.all_done:
        return _WAIT
    return _FAILED if ends.bad else _SKIP


def _one_failed(ends: Ends) -> Verdict:
    if ends.bad:
        return _RUN
    return _SKIP if ends.all_done else _WAIT


def _one_done(ends: Ends) -> Verdict:
    """Done is what has run: parents that were skipped, or never could run, do not count."""
    if ends.succeeded or ends.failed:
        return _RUN
    return _SKIP if ends.all_done else _WAIT


def _none_failed(ends: Ends) -> Verdict:
    if ends.bad:
        return _FAILED
    return _RUN if ends.all_done else _WAIT


def _none_failed_min_one_success(ends: Ends) -> Verdict:
    if ends.bad:
        return _FAILED
    if not ends.all_done:
        return _WAIT
    return _RUN if ends.succeeded else _SKIP


def _none_skipped(ends: Ends) -> Verdict:
    if ends.skipped:
        return _SKIP
    return _RUN if ends.all_done else _WAIT


def _always(_ends: Ends) -> Verdict:
    return _RUN


_RULES: dict[TriggerRule, Callable[[Ends], Verdict]] = {
    TriggerRule.ALL_SUCCESS: _all_success,
    TriggerRule.ALL_FAILED: _all_failed,
    TriggerRule.ALL_DONE: _all_done,
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: _all_done_min_one_success,
    TriggerRule.ALL_SKIPPED: _all_skipped,
    TriggerRule.ONE_SUCCESS: _one_success,
    TriggerRule.ONE_FAILED: _one_failed,
    TriggerRule.ONE_DONE: _one_done,
    TriggerRule.NONE_FAILED: _none_failed,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
    TriggerRule.NONE_SKIPPED: _none_skipped,
    TriggerRule.ALWAYS: _always,
}
