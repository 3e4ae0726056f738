"""The troubles of a plan, as they strike: at port calls, at commits, at the clock, in the tables.

A trouble is *armed* at its tick and *strikes* at a later port call of its slot. Only what struck is counted: a fault
that nobody ran into proves nothing. Must hold: everything follows from the plan, the schedule and this component's
own dice. After ``heal`` nothing goes wrong any more, and what was on its way has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from waterclock.log.memory import CommitFate, Killed
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.errors import BackendDown, LostResource
from waterclock.model.events import EventKind
from waterclock.store.memory import WriteFault

from .dice import dice
from .plan import DISPATCHERS
from .schedule import Schedule
from .story import Story
from .troubles import AFTER_FLUSH, Trouble
from .world import NAMES, Life, World

_MAY_GET_NO_ANSWER = frozenset(
    {"init", "poll", "committed", "plain commit", "partitions", "low_watermark", "high_watermark", "offset_at", "read"}
)
"""Calls whose port says BackendDown."""

_STANDING_STILL_MAX = 2
_DRAIN_TURN_US = 200_000
_DRAIN_TURNS_MAX = 80
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
        self._slots = {world.transactional_id(slot): slot for slot in world.plan.skew_us}
        world.cluster.faults.on_call = self._on_call
        world.cluster.faults.on_commit = self._fate
        world.tables.on_call = self._on_store_call
        for trouble in world.plan.troubles:
            schedule.after(trouble.at, lambda trouble=trouble: self._begin(trouble))

    def heal(self) -> None:
        """Nothing is armed any more; delayed messages, markers and rows arrive."""
        self._armed.clear()
        self._world.cluster.faults.on_commit = None
        self._world.tables.on_call = None
        self._end_markers()
        coordinator = self._world.cluster.coordinator
        for delayed in list(coordinator.delayed):
            coordinator.deliver(delayed)
        self._on_their_way.clear()
        self._world.tables.land()

    # What begins at its tick ------------------------------------------------------------------------------------------

    def _begin(self, trouble: Trouble) -> None:
        at_once = {
            "markers": self._hold_markers,
            "sleep": self._sleep,
            "absence": self._be_absent,
            "jump": self._jump,
            "skew": self._skew,
            "deploy": self._deploy,
            "compact": self._compact,
            "forget": self._forget,
            "stillborn": self._be_stillborn,
            "tear": self._tear,
            "swallow": self._swallow,
        }.get(trouble.kind)
        if at_once is not None:
            at_once(trouble)
            return
        self._armed.setdefault(trouble.slot, []).append(_Armed(trouble, trouble.calls))

    def _hold_markers(self, trouble: Trouble) -> None:
        self._struck("markers", "brokers", "markers land one by one, and late")
        self._world.cluster.coordinator.hold_markers = True
        self._schedule.after(trouble.us, self._end_markers)

    def _end_markers(self) -> None:
        coordinator = self._world.cluster.coordinator
        coordinator.hold_markers = False
        for landing in coordinator.landings():
            coordinator.land(landing)

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

    def _jump(self, trouble: Trouble) -> None:
        self._struck("jump", "everybody", f"the wall clock jumps {trouble.us // 1_000_000} s ahead")
        self._world.clock.jump(trouble.us)

    def _skew(self, trouble: Trouble) -> None:
        self._struck("skew", trouble.slot, f"its clock is off by {trouble.us / 1_000_000:.3f} s from now on")
        self._world.skew(trouble.slot, trouble.us)

    def _deploy(self, trouble: Trouble) -> None:
        """SIGTERM: drain, close, and a new process."""
        life = self._world.newest[trouble.slot]
        if not life.alive or life.core is None or life in self._standing_still:
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
                group.commit({place: Committed(position.offset, "")})

    def _be_stillborn(self, trouble: Trouble) -> None:
        life = self._world.newest[trouble.slot]
        if not life.alive or life in self._standing_still:
            return
        self._struck("stillborn", life.client, "is killed, and its successor will stand still")
        self._world.kill(life)
        self._restart(life, 200_000)
        pause = trouble._replace(kind="pause", with_twin=True)
        self._armed.setdefault(trouble.slot, []).append(_Armed(pause, pause.calls))

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
        self._world.stood.append((life.slot, stands_from, self._world.clock.now()))
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
                self._struck("delivered", slot, f"its delayed EndTxn arrives at {operation}, ends a round: {ended}")

    # What strikes at a commit and in the tables -----------------------------------------------------------------------

    def _fate(self, transactional_id: str) -> CommitFate:
        slot = self._slots[transactional_id]
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
        self._story.call(self._schedule.tick, client, operation)
        if not life.alive:
            raise Killed(client)
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
