"""Troubles that befall everybody, or a whole process, at their tick: see ``nemesis.py``, whose other half they are.

Must hold: as there. What is struck here is counted at once, for nobody has to run into it.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.log.memory import Killed
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S

from .dice import dice
from .outages import BACK_US, SLICE_TICKS, SLICES
from .plan import DISPATCHERS
from .retention import Retention
from .schedule import Schedule
from .story import Story
from .troubles import Trouble
from .world import NAMES, Life, World
from .zone_people import ABROAD, ZONE

_DRAIN_TURN_US = 200_000
_DRAIN_TURNS_MAX = 80
_STORM_TIMES, _STORM_US = 5, 1_500_000
_DRIFT_TIMES = 6
_LOOK_AGAIN_US = 500_000


class Disasters:
    """Of one play. ``restart``: as the nemesis has it; ``arm``: for what shall strike later at a call."""

    def __init__(
        self,
        world: World,
        schedule: Schedule,
        story: Story,
        restart: Callable[[Life, int], None],
        arm: Callable[[Trouble], None],
        standing_still: list[Life],
        retention: Retention,
    ) -> None:
        self._world = world
        self._schedule = schedule
        self._story = story
        self._restart = restart
        self._arm = arm
        self._standing_still = standing_still
        self._retention = retention
        self._dice = dice(world.plan.seed, "disasters")

    def begin(self, trouble: Trouble) -> bool:
        """False: it is no such trouble."""
        act = {
            "markers": self._hold_markers,
            "sleep": self._sleep,
            "absence": self._be_absent,
            "outage": self._be_out,
            "jump": self._jump,
            "skew": self._skew,
            "deploy": self._deploy,
            "compact": self._compact,
            "forget": self._forget,
            "stillborn": self._be_stillborn,
            "tear": self._tear,
            "swallow": self._swallow,
            "lose": self._lose,
            "storm": self._storm,
            "drift": self._drift,
            "retention": self._forget_old,
            "zone": self._lose_zone,
        }.get(trouble.kind)
        if act is not None:
            act(trouble)
        return act is not None

    def end_markers(self) -> None:
        """Everything that is decided shows."""
        coordinator = self._world.cluster.coordinator
        coordinator.hold_markers = False
        for landing in coordinator.landings():
            coordinator.land(landing)

    def _hold_markers(self, trouble: Trouble) -> None:
        self._struck("markers", "brokers", "markers land one by one, and late")
        self._world.cluster.coordinator.hold_markers = True
        self._schedule.after(trouble.us, self.end_markers)

    def _sleep(self, trouble: Trouble) -> None:
        self._struck("sleep", "everybody", f"sleeps for {trouble.us // 1_000_000} s")
        self._world.clock.advance(trouble.us)

    def _be_absent(self, trouble: Trouble) -> None:
        self._struck("absence", "dispatchers", f"are gone for {trouble.us // 1_000_000} s")
        for slot in DISPATCHERS:
            life = self._world.newest[slot]
            if life.alive:
                self._world.kill(life)
                self._restart(life, 5_000_000)
        self._world.clock.advance(trouble.us)

    def _be_out(self, trouble: Trouble) -> None:
        """All dispatchers are gone, and the clock goes on in slices between which others go on, too."""
        self._struck("outage", "dispatchers", f"are gone for {trouble.us // 1_000_000} s, slice by slice")
        for slot in DISPATCHERS:
            life = self._world.newest[slot]
            if life.alive:
                self._world.kill(life)
                self._restart(life, SLICES * SLICE_TICKS + trouble.calls * BACK_US)
        for number in range(SLICES):
            self._schedule.after(number * SLICE_TICKS, lambda: self._go_on(trouble.us // SLICES))

    def _go_on(self, us: int) -> None:
        if not self._world.has_healed:
            self._world.clock.advance(us)

    def _jump(self, trouble: Trouble) -> None:
        self._struck("jump", "everybody", f"the wall clock jumps {trouble.us // 1_000_000} s ahead")
        self._world.clock.jump(trouble.us)

    def _skew(self, trouble: Trouble) -> None:
        self._struck("skew", trouble.slot, f"its clock is off by {trouble.us / 1_000_000:.3f} s from now on")
        self._world.skew(trouble.slot, trouble.us)

    def _deploy(self, trouble: Trouble) -> None:
        """SIGTERM: drain, close, and a new process."""
        life = self._world.newest[trouble.slot]
        if not life.alive or life.leaving or life.core is None or life in self._standing_still:
            return
        self._struck("deploy", life.client, "is asked to leave, and drains")
        life.leaving = True
        self._drain(life, _DRAIN_TURNS_MAX)

    def _drain(self, life: Life, turns: int) -> None:
        """One turn of a process that leaves; the last one closes it and starts its successor."""
        if not life.alive or life.core is None:
            return
        try:
            if life.core.drain() and turns:
                self._schedule.after(_DRAIN_TURN_US, lambda: self._drain(life, turns - 1))
                return
            life.core.close()
        except Killed:
            return
        except (BackendDown, LostResource) as end:
            self._story.tell(self._schedule.tick, life.client, f"the drain ended early: {end}")
        self._story.tell(self._schedule.tick, life.client, "has left")
        if life.alive:
            self._world.kill(life)
            self._restart(life, 500_000)

    def _compact(self, _trouble: Trouble) -> None:
        self._struck("compact", "brokers", "the log cleaner comes by")
        self._world.compact()

    def _forget_old(self, _trouble: Trouble) -> None:
        if count := self._retention.strike():
            self._struck("retention", "brokers", f"forget {count} records that are old")

    def _forget(self, _trouble: Trouble) -> None:
        """A foreign tool commits the dispatchers' positions: the metadata with the cursors is gone."""
        if any(self._world.newest[slot].alive for slot in DISPATCHERS):
            self._be_absent(Trouble(0, "absence", "", us=0))
        group = self._world.cluster.group(NAMES.group("dispatcher"))
        for partition in range(self._world.plan.partitions):
            place = TopicPartition(NAMES.commands, partition)
            position = group.committed(place)
            if position is not None and not group.is_pending(place):
                self._struck("forget", "a tool", f"erases the cursor of {partition}")
                self._world.cursors_lost.append(self._world.clock.now())
                group.commit({place: Committed(position.offset, "")})

    def _lose(self, trouble: Trouble) -> None:
        """All processes of a role are gone for longer than the brokers keep the positions of an empty group, which is
        also as long as they remember a transactional id at rest."""
        role = trouble.slot.rpartition("-")[0]
        slots = [slot for slot in self._world.plan.slots if slot.rpartition("-")[0] == role]
        if any(life.slot in slots for life in self._standing_still):
            return
        for slot in slots:
            life = self._world.newest[slot]
            if life.alive:
                self._world.kill(life)
                self._restart(life, 1_000_000)
        lost = [name for name in self._world.groups_of(role) if not self._world.cluster.group(name).holds_pending]
        for name in lost:
            self._world.cluster.expire_group(name)
        self._world.cluster.coordinator.forget_idle()
        if lost:
            self._world.lost_roles.add(role)
            if role == "dispatcher":
                self._world.cursors_lost.append(self._world.clock.now())
            self._struck(f"lose {role}", "brokers", f"forget the positions of {', '.join(lost)}")

    def _lose_zone(self, trouble: Trouble) -> None:
        """Once the job in it stands: before that its command would be refused."""
        if self._world.has_healed:
            return
        if self._world.onlooker.knows(ABROAD):
            self._struck("zone", "everybody", f"is upgraded to zone data without {ZONE}")
            self._world.zone_is_gone = True
            self._world.take_zone_away()
            self._be_absent(Trouble(0, "absence", "", us=0))
        else:
            self._schedule.after(_LOOK_AGAIN_US, lambda: self._lose_zone(trouble))

    def _storm(self, trouble: Trouble) -> None:
        """Somebody joins the groups of a role and leaves again, every second or two: one rebalance after the other."""
        groups = self._world.groups_of(trouble.slot.rpartition("-")[0])
        if groups:
            self._struck("storm", "a stranger", f"comes and goes in {', '.join(groups)}")
        for number in range(_STORM_TIMES):
            for name in groups:
                self._schedule.after(number * _STORM_US, lambda name=name: self._come_and_go(name))

    def _come_and_go(self, name: str) -> None:
        topics = self._world.cluster.group(name).topics()
        if not topics or self._world.has_healed:
            return
        stranger = self._world.outside.consumer(name, topics)
        stranger.poll(0, 0.0)
        self._schedule.after(_STORM_US // 2, lambda: stranger.close(leave=True))

    def _drift(self, trouble: Trouble) -> None:
        """A clock that is corrected again and again, there and back."""
        self._struck("drift", trouble.slot, "its clock goes to and fro")
        for number in range(_DRIFT_TIMES):
            skew_us = self._dice.randrange(-US_PER_S, US_PER_S)
            self._schedule.after(number * US_PER_S, lambda skew_us=skew_us: self._drift_to(trouble.slot, skew_us))

    def _drift_to(self, slot: str, skew_us: int) -> None:
        if not self._world.has_healed:
            self._world.skew(slot, skew_us)

    def _be_stillborn(self, trouble: Trouble) -> None:
        life = self._world.newest[trouble.slot]
        if not life.alive or life in self._standing_still:
            return
        self._struck("stillborn", life.client, "is killed, and its successor will stand still")
        self._world.kill(life)
        self._restart(life, 200_000)
        pause = trouble._replace(kind="pause", with_twin=True)
        self._arm(pause)

    def _tear(self, _trouble: Trouble) -> None:
        """What a torn round would leave: a second claim of an open attempt, and the outcome of that one."""
        found = self._world.onlooker.open_attempt(self._dice.randrange(1 << 16))
        if found is None:
            return
        run_id, run = found
        rivals = [slot for slot in self._world.plan.slots if slot.startswith("worker") and slot != run["worker"]]
        kind = self._dice.choice([EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED, EventKind.ATTEMPT_LOST])
        self._struck("tear", "a torn round", f"claims {run_id} a second time, and says {kind}")
        self._world.forge(run_id, run["attempt"], self._dice.choice(rivals), kind)

    def _swallow(self, trouble: Trouble) -> None:
        """A foreign tool moves the workers' positions to the end, while none of them looks."""
        workers = [slot for slot in self._world.plan.slots if slot.startswith("worker")]
        if any(life.slot in workers for life in self._standing_still):
            return
        for slot in workers:
            life = self._world.newest[slot]
            if life.alive:
                self._world.kill(life)
                self._restart(life, 1_000_000)
        self._struck("swallow", "a tool", f"passes over {self._world.swallow()} work records")

    def _struck(self, kind: str, who: str, what: str) -> None:
        self._story.counts[kind] += 1
        self._story.tell(self._schedule.tick, who, what)
