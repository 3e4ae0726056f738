"""Zone data in a group of dispatchers: the newest that was announced counts, and who has older leaves (time.md §4).

Two owners with different zone data would compute different fires of one job. So each dispatcher announces the version
that it has before it joins its group; one that finds a newer one announced does not join, and leaves when it finds it
later. How a job's rows come to their new times: the sweep (``sweep.py``) finds that what is
expected is not what stands, and a row that was written under other transitions is looked at again when it is loaded
(``window.py``). How it fails: a store that is away, and nobody can start, as without this; a line that cannot be read,
and dispatchers go on with what they have, for one cell must not stop them all. An announcement that was a mistake is
withdrawn by ``waterclock upkeep tzdata --withdraw``.
"""

from __future__ import annotations

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import LostResource, RequestError, UndecodableRecord
from waterclock.model.zones import TZDATA_VERSION
from waterclock.store.upkeep import TZDATA, UpkeepKeeping

CHECK_EVERY_S = 60.0

log_ = structlog.get_logger("dispatcher")


class OlderZoneData(LostResource):
    """A dispatcher with newer zone data has been here: this one must not decide fires."""


class ZoneData:
    """What this dispatcher has, and whether it may go on with it."""

    def __init__(self, store: UpkeepKeeping, clock: Clock, version: str = TZDATA_VERSION) -> None:
        """Announces it. Raises RequestError where a newer version is announced, BackendDown."""
        self._store = store
        self._clock = clock
        self.version = version
        newest = self._newest()
        if newest > version:
            raise RequestError(
                f"this dispatcher has tzdata {version}, and one with {newest} has been here",
                hint="Upgrade the package tzdata; `waterclock upkeep tzdata` tells more",
            )
        if newest != version:
            store.tell(TZDATA, version, {}, clock.now())
            log_.info("zone data announced", tzdata=version, before=newest)
        self._check_at_s = clock.monotonic_s() + CHECK_EVERY_S

    def check(self) -> None:
        """Now and then. Raises OlderZoneData, BackendDown."""
        if self._clock.monotonic_s() < self._check_at_s:
            return
        newest = self._newest()
        self._check_at_s = self._clock.monotonic_s() + CHECK_EVERY_S
        if newest > self.version:
            log_.error("leaves its group: there is newer zone data in it", tzdata=self.version, newest=newest)
            raise OlderZoneData(f"tzdata {self.version} here, {newest} in the group: upgrade this dispatcher")

    def _newest(self) -> str:
        try:
            told = self._store.told_of_all(TZDATA)
        except UndecodableRecord as error:
            log_.error("announced zone data cannot be read: it is compared with none", cause=str(error))
            return ""
        return max((each.place for each in told if not each.parts.get("withdrawn")), default="")
