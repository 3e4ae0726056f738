"""The demo on a stack that is ready: load the world, watch, and (unattended) end when all of it was seen.

What is told comes from the log, the dead letters and history, read from outside. Unattended, the wait is bounded: then
StackTrouble says what is missing. A backend that is away for a moment is told and waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from waterclock.clock import SystemClock
from waterclock.log.kafka_lag import group_lags
from waterclock.log.port import Log
from waterclock.model.errors import BackendDown
from waterclock.model.events import RunStatus
from waterclock.model.job import Tier
from waterclock.settings import Settings
from waterclock.store.port import Reading
from waterclock.wire.names import Names

from .banner import program
from .demo_proof import Proof
from .demo_sight import SeenRun, Sight
from .demo_stack import DemoStack
from .demo_table import Display, View, ended_line
from .demo_world import kinds, load
from .trouble import StackTrouble

_ALL_SHOWN_WITHIN_S = 150.0  # a cron job of each minute may take one
_LOOK_S = 0.25
_AWAY_S = 1.0
_LAG_EVERY_S = 2.0
_HISTORY_EVERY_S = 0.5


class Beginnings(NamedTuple):
    """When it all began, and when the servers were started: seconds since the epoch."""

    demo_s: float
    servers_s: float


class Demo:
    """One demo. Make it once everything runs; then ``run``. ``page``: where a browser sees the same."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        store: Reading,
        stack: DemoStack,
        shown: Display,
        began: Beginnings,
        *,
        page: str = "",
    ) -> None:
        self._settings = settings
        self._log = log
        self._store = store
        self._stack = stack
        self._shown = shown
        self._began = began
        self._page = page
        self._names = Names(settings.kafka.prefix)
        self._clock = SystemClock()
        self._sight = Sight(log, self._names, self._clock, generation=settings.generation)
        self._world = kinds(self._clock.now())
        self._proof = Proof(self._world, settings.tenant)
        self._lags: dict[Tier, int | None] = dict.fromkeys(Tier)
        self._first_run = ""

    def run(self, *, unattended: bool, heed: Callable[[], None]) -> None:
        """Until every kind of run is shown, where nobody attends; else for ever. Raises StackTrouble, BackendDown.

        ``heed`` raises, between two looks, whatever is to end it.
        """
        load(self._log, self._names, self._settings.tenant, self._world, self._clock.now())
        self._shown.tell(f"{self._elapsed()}  loaded {len(self._world)} jobs (`{program()} job list`):")
        for kind in self._world:
            self._shown.tell(f"            {kind.name:<10} {kind.shows}")
        give_up_at = time.monotonic() + _ALL_SHOWN_WITHIN_S
        lag_at = history_at = 0.0
        while not (unattended and self._proof.complete):
            heed()
            self._stack.listen()
            self._stack.check()
            self._take(self._look())
            if time.monotonic() >= history_at:
                self._ask_history()
                history_at = time.monotonic() + _HISTORY_EVERY_S
            if time.monotonic() >= lag_at:
                self._lags = self._ask_lags()
                lag_at = time.monotonic() + _LAG_EVERY_S
            self._shown.show(View(self._sight, self._lags, self._footer()))
            if unattended and time.monotonic() > give_up_at:
                raise self._incomplete()
        self._shown.tell(
            f"{self._elapsed()}  a run of each kind ended as it should ({len(self._world)} of {len(self._world)}), "
            f"on the log and in history. {self._first_run}"
        )

    def close(self) -> None:
        """Stop reading."""
        self._sight.close()

    def _look(self) -> list[SeenRun]:
        """What ended since the last look; nothing while Kafka is away, which is told."""
        try:
            return self._sight.look(_LOOK_S)
        except BackendDown as down:
            self._shown.tell(f"{self._elapsed()}  no answer from {down}")
            time.sleep(_AWAY_S)
            return []

    def _take(self, ended: Sequence[SeenRun]) -> None:
        self._proof.take(ended)
        first = next((run for run in ended if run.status is RunStatus.SUCCEEDED), None)
        if first is None or self._first_run:
            return
        now_s = time.time()
        self._first_run = (
            f"First run: {now_s - self._began.demo_s:.1f} s after the beginning, "
            f"{now_s - self._began.servers_s:.1f} s after the servers were started"
        )
        self._shown.tell(f"{self._elapsed()}  {ended_line(first)}")
        self._shown.tell(f"{self._elapsed()}  {self._first_run}")

    def _ask_history(self) -> None:
        try:
            found = self._proof.check(self._store, self._sight.letters.newest)
        except BackendDown as down:
            self._shown.tell(f"{self._elapsed()}  no answer from {down}")
            return
        for kind, run in found:
            letter = ", a dead letter" if kind.ends is RunStatus.FAILED else ""
            self._shown.tell(f"{self._elapsed()}  {ended_line(run)}, in history{letter}  ({kind.shows})")

    def _ask_lags(self) -> dict[Tier, int | None]:
        """Records of each tier that no worker has claimed, as Kafka counts them (markers included)."""
        kafka = self._settings.kafka
        groups = {self._names.worker_group(tier): tier for tier in Tier}
        lags: dict[Tier, int | None] = dict.fromkeys(Tier)
        try:
            for each in group_lags(kafka.bootstrap, kafka.prefix, list(groups), extra=kafka.properties):
                lags[groups[each.group]] = (lags[groups[each.group]] or 0) + each.lag
        except BackendDown as down:
            self._shown.tell(f"{self._elapsed()}  no answer from {down}")
        return lags

    def _footer(self) -> str:
        shown_count = len(self._world) - len(self._proof.missing())
        parts = (
            self._elapsed().strip(),
            f"dead letters {self._sight.letters.count}",
            f"skipped fires {self._sight.skipped_count}",
            f"kinds shown {shown_count} of {len(self._world)}",
            self._page and f"in a browser: {self._page}/",
            "Ctrl-C stops everything",
        )
        return " · ".join(filter(None, parts))

    def _incomplete(self) -> StackTrouble:
        missing = "".join(f"\n  {line}" for line in self._proof.missing())
        return StackTrouble(
            f"Not every kind of run ended as it should within {_ALL_SHOWN_WITHIN_S:.0f} s. Missing:{missing}",
            hint=f"Look into the logs of the roles with `{program()} logs`",
        )

    def _elapsed(self) -> str:
        return f"{time.time() - self._began.demo_s:6.1f} s"
