"""The troubles of a plan, as they strike: at port calls, at commits, at the clock, in the tables.

A trouble is *armed* at its tick and *strikes* at a later port call of its slot. Only what struck is counted: a fault
that nobody ran into proves nothing. Must hold: everything follows from the plan, the schedule and this component's
own dice. After ``heal`` nothing goes wrong any more, and what was on its way has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from waterclock.log.memory import CommitFate, Killed
from waterclock.model.errors import BackendDown
from waterclock.store.memory import WriteFault

from .buggify import ASKS, LATE_ERRAND, NO_ANSWER, SHORT_POLL, SLOW_COMMIT, SLOW_STORE, Buggify
from .dice import dice
from .disasters import Disasters
from .retention import Retention
from .schedule import Schedule
from .story import Story
from .troubles import AFTER_FLUSH, Trouble
from .world import Life, World

_MAY_GET_NO_ANSWER = frozenset(
    {
        "init",
        "poll",
        "committed",
        "plain commit",
        "partitions",
        "low_watermark",
        "high_watermark",
        "offset_at",
        "read",
        "group_positions",
        "members",
        "open_from",
    }
)
"""Calls whose port says BackendDown."""

_STANDING_STILL_MAX = 2
_LAND_SHARE = 0.3


@dataclass(slots=True, eq=False)
class _Armed:
    trouble: Trouble
    calls_left: int
    is_counting: bool = False


class Nemesis:
    """Of one play. ``restart(life, us)`` replaces a life by a new one after so many microseconds."""

    def __init__(self, world: World, schedule: Schedule, story: Story, restart: Callable[[Life, int], None]) -> None:
        self._world = world
        self._schedule = schedule
        self._story = story
        self._restart = restart
        self._dice = dice(world.plan.seed, "nemesis")
        self._armed: dict[str, list[_Armed]] = {}
        self._on_their_way: dict[str, _Armed] = {}
        self._standing_still: list[Life] = []
        self.retention = Retention(world)
        self._disasters = Disasters(world, schedule, story, restart, self._arm, self._standing_still, self.retention)
        self._slots = {world.transactional_id(slot): slot for slot in world.plan.skew_us}
        self._buggify = Buggify(world.plan.sites, dice(world.plan.seed, "buggify"))
        world.cluster.faults.on_poll = self._fetched
        world.cluster.faults.on_call = self._on_call
        world.cluster.faults.on_commit = self._fate
        world.tables.on_call = self._on_store_call
        world.late_us = self._late_us
        for trouble in world.plan.troubles:
            schedule.after(trouble.at, lambda trouble=trouble: self._begin(trouble))

    def heal(self) -> None:
        """Nothing is armed any more; delayed messages, markers and rows arrive."""
        self._armed.clear()
        self._world.has_healed = True
        self._world.healed_at = self._world.clock.now()
        self._buggify.end()
        self._world.cluster.faults.on_poll = None
        self._world.cluster.faults.on_commit = None
        self._world.tables.on_call = None
        self._disasters.end_markers()
        coordinator = self._world.cluster.coordinator
        for delayed in list(coordinator.delayed):
            coordinator.deliver(delayed)
        self._on_their_way.clear()
        self._world.tables.land()

    # What begins at its tick ------------------------------------------------------------------------------------------

    def _begin(self, trouble: Trouble) -> None:
        if not self._disasters.begin(trouble):
            self._arm(trouble)

    def _arm(self, trouble: Trouble) -> None:
        self._armed.setdefault(trouble.slot, []).append(_Armed(trouble, trouble.calls))

    # What strikes at a port call --------------------------------------------------------------------------------------

    def _on_call(self, client: str, operation: str) -> None:
        self._story.call(self._schedule.tick, client, operation)
        life = self._world.lives.get(client)
        if life is None:
            return
        if self._world.cluster.coordinator.hold_markers:
            self._land_one()
        if life.slot in self._on_their_way:
            self._deliver(life.slot, operation)
        if life.slot in self._armed:
            self._strike(life, operation)
        if operation in ASKS and self._buggify.fires(NO_ANSWER):
            self._story.counts[f"buggify: {NO_ANSWER}"] += 1
            raise BackendDown("kafka", f"{operation}: no answer")
        if operation == "commit" and self._buggify.fires(SLOW_COMMIT):
            self._be_slow(life, SLOW_COMMIT)

    def _late_us(self) -> int:
        """How long the answer to an errand takes; none does once the world is healed."""
        if not self._buggify.fires(LATE_ERRAND):
            return 0
        self._story.counts[f"buggify: {LATE_ERRAND}"] += 1
        return self._buggify.slow_us()

    def _fetched(self, asked: int) -> int:
        """How many records a poll brings at most."""
        most = self._buggify.fewer(asked)
        self._story.counts[f"buggify: {SHORT_POLL}"] += most < asked
        return most

    def _be_slow(self, life: Life, site: str) -> None:
        """The answer takes its time, and everybody else goes on; bounded like those who stand still."""
        if len(self._standing_still) >= _STANDING_STILL_MAX or life in self._standing_still:
            return
        self._story.counts[f"buggify: {site}"] += 1
        self._standing_still.append(life)
        self._schedule.run(self._schedule.tick + self._buggify.slow_us())
        self._standing_still.remove(life)
        if not life.alive:
            raise Killed(life.client)

    def _strike(self, life: Life, operation: str) -> None:
        armed = self._armed[life.slot]
        for each in list(armed):
            trouble = each.trouble
            if each not in armed or trouble.kind not in ("crash", "pause", "hold", "away"):
                continue
            if trouble.operation == AFTER_FLUSH:
                each.is_counting = each.is_counting or operation == "flush"
                if not each.is_counting:
                    continue
            elif trouble.operation not in ("", operation):
                continue
            if trouble.kind == "away":
                self._be_away(each, operation)
                continue
            each.calls_left -= 1
            if each.calls_left > 0:
                continue
            if trouble.kind != "crash" and len(self._standing_still) >= _STANDING_STILL_MAX:
                continue
            armed.remove(each)
            if trouble.kind == "crash":
                self._crash(life, operation, trouble)
            self._stand_still(life, operation, trouble)

    def _crash(self, life: Life, operation: str, trouble: Trouble) -> None:
        self._struck("crash", life.client, f"is killed at {operation}")
        self._world.kill(life)
        self._restart(life, trouble.us)
        raise Killed(life.client)

    def _stand_still(self, life: Life, operation: str, trouble: Trouble) -> None:
        """SIGSTOP in the middle of a step; everybody else goes on."""
        self._struck(trouble.kind, life.client, f"stands still at {operation} for {trouble.us // 1_000_000} s")
        self._standing_still.append(life)
        if trouble.with_twin:
            self._restart(life, trouble.us // 2)
        stands_from = self._world.clock.now()
        self._schedule.run(self._schedule.tick + trouble.us)
        self._world.stood.append((life.slot, stands_from, self._world.clock.now(), operation))
        self._standing_still.remove(life)
        self._story.tell(self._schedule.tick, life.client, "goes on" if life.alive else "was killed meanwhile")
        if not life.alive:
            raise Killed(life.client)

    def _be_away(self, armed: _Armed, operation: str) -> None:
        if operation not in _MAY_GET_NO_ANSWER:
            return
        armed.calls_left -= 1
        if armed.calls_left <= 0:
            self._armed[armed.trouble.slot].remove(armed)
        self._struck("away", armed.trouble.slot, f"gets no answer to {operation}")
        raise BackendDown("kafka", f"{operation}: no answer")

    def _land_one(self) -> None:
        coordinator = self._world.cluster.coordinator
        if self._dice.random() < _LAND_SHARE:
            landings = coordinator.landings()
            if landings:
                coordinator.land(self._dice.choice(landings))

    def _deliver(self, slot: str, operation: str) -> None:
        """The slot's delayed EndTxn arrives, if its time has come."""
        waiting = self._on_their_way[slot]
        if waiting.trouble.operation not in ("", operation):
            return
        waiting.calls_left -= 1
        if waiting.calls_left > 0:
            return
        del self._on_their_way[slot]
        coordinator = self._world.cluster.coordinator
        for delayed in list(coordinator.delayed):
            if self._slots[delayed.transactional_id] == slot:
                ended = coordinator.deliver(delayed)
                end = "ends a round" if ended else "is refused"
                self._struck(f"delivered, {end}", slot, f"its delayed EndTxn arrives at {operation} and {end}")

    # What strikes at a commit and in the tables -----------------------------------------------------------------------

    def _fate(self, transactional_id: str) -> CommitFate:
        slot = self._slots.get(transactional_id, "")
        for each in self._armed.get(slot, ()):
            trouble = each.trouble
            if trouble.kind not in ("abort", "doubt"):
                continue
            self._armed[slot].remove(each)
            if trouble.kind == "abort":
                self._struck("abort", slot, "its commit is refused")
                return CommitFate.ABORTS
            self._struck(f"doubt:{trouble.fate}", slot, f"its commit is in doubt: {CommitFate[trouble.fate].value}")
            if trouble.fate in ("DELAYED", "DOUBLED"):
                self._on_their_way[slot] = _Armed(trouble, trouble.calls)
            return CommitFate[trouble.fate]
        return CommitFate.LANDS

    def _on_store_call(self, client: str, operation: str) -> WriteFault | None:
        life = self._world.lives[client]
        if not life.alive:
            raise Killed(client)
        self._story.call(self._schedule.tick, client, operation)
        self._story.counts["rows made anew"] += operation == "write_due:anew"
        if self._buggify.fires(SLOW_STORE):
            self._be_slow(life, SLOW_STORE)
        if life.slot not in self._armed:
            return None
        self._strike(life, operation)
        for each in list(self._armed.get(life.slot, ())):
            trouble = each.trouble
            if trouble.kind == "store" and trouble.operation in ("", operation):
                return self._unknown(each, life, operation)
        return None

    def _unknown(self, armed: _Armed, life: Life, operation: str) -> WriteFault:
        trouble = armed.trouble
        armed.calls_left -= 1
        if armed.calls_left <= 0:
            self._armed[life.slot].remove(armed)
        writes = operation not in ("load_due", "versions_below", "versions")
        self._struck(f"store:{trouble.fate}" if writes else "store:read", life.client, f"no answer to {operation}")
        if trouble.fate == "LATER":
            self._schedule.after(trouble.us, self._world.tables.land)
        return WriteFault[trouble.fate]

    def _struck(self, kind: str, who: str, what: str) -> None:
        self._story.counts[kind] += 1
        self._story.tell(self._schedule.tick, who, what)
