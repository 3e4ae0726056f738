"""200 EndTxn arrive late, inside a later open transaction of their role: no round is torn; unmitigated, some are.

A proxy that knows Kafka's frames holds the EndTxn of a role's round back and cuts the client, which repeats it by
itself; once a later transaction of the same id is open by the broker's own answers, the late one goes in, and what the
broker says is kept. In half of the cases the role is killed in that very moment, so that nothing else can mend what the
late one did. Over dispatchers, workers, routers, the ladder and intakes. At rest, after the reconciler's pass, no round
is torn. Then roles run without the mitigation (no new producer, no init, nothing settled after doubt): at least one
round must be torn, else nothing was shown.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from random import Random
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.excuses import Excuses
from tests.acceptance.judge_all import judge_all
from tests.acceptance.kills import BREATH_S
from tests.acceptance.real_stack import RoleProcess, wait_for
from tests.acceptance.scene import Scene, scene
from tests.acceptance.taken import take_work
from tests.conformance.late_proxy import Delay, LateProxy, Moment
from tests.failpoints.lane import keep_up
from tests.failpoints.load import Load, jobs
from tests.oracle import torn
from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode

_PARTITIONS = 4
_LEASE_S = 5.0
_LEAD_S = 4.0
_COMES_WITHIN_S = 20.0
_PEACE_S = 0.5
_DELAY_S_MAX = 12.0
_RECONCILE_EVERY_S = 3.0
_PASS_S = 3 * _RECONCILE_EVERY_S
"""The reconciler repairs what it has seen in two looks running."""

_KILLED_PART = 0.5
_AT_OFFSETS_PART = 0.7
_MODULE = "tests.failpoints.reusing_producer"
_EPOCHS = {47: "INVALID_PRODUCER_EPOCH", 90: "PRODUCER_FENCED"}
_ERRORS = {0: "accepted", 48: "INVALID_TXN_STATE", 49: "INVALID_PRODUCER_ID_MAPPING", 51: "CONCURRENT_TRANSACTIONS"}
_BARE = "bare"
_BARE_TURNS = 4
"""How often it is tried again to tear a round without the mitigation."""


CAST: dict[str, tuple[str, tuple[str, ...]]] = {
    "dispatcher-1": ("dispatcher", ("dispatcher",)),
    "dispatcher-2": ("dispatcher", ("dispatcher",)),
    "worker-1": ("workers", ("worker",)),
    "worker-2": ("workers", ("worker",)),
    "retry-router-1": ("retry_router", ("retry-router", "retry-ladder")),
    "intake-1": ("intake", ("intake",)),
    "intake-2": ("intake", ("intake",)),
    "recorder-1": ("recorder", ("recorder",)),
}
"""By instance: its process, and the roles in its transactional ids."""


_BARE_CAST = ("dispatcher-1", "worker-1", "intake-1")
"""Who plays without the mitigation."""


class Size(NamedTuple):
    """How many delays with the mitigation, how many without it."""

    delays: int
    bare: int


WHOLE = Size(210, 18)
SHORT = Size(8, 3)


class Landed(NamedTuple):
    """One EndTxn that came late: whose, when, whether the role was killed then, and the broker's answer."""

    role: str
    moment: Moment
    killed: bool
    error: int

    @property
    def word(self) -> str:
        """The answer as Kafka calls it."""
        return {**_EPOCHS, **_ERRORS}.get(self.error, str(self.error))


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with (
        scene("late-endtxn", seed, partitions=_PARTITIONS) as played,
        closing(LateProxy("127.0.0.1", played.stack.kafka.port)) as proxy,
    ):
        _start(played, proxy)
        played.define(jobs(played.dice, _LEAD_S))
        landed, missed = _delay(played, proxy, size.delays, _half_killed)
        chronicle = played.come_to_rest(watch_s=_PASS_S)
        _judge(played, chronicle, landed, missed, size)
        _without(played, proxy, size)


def _start(played: Scene, proxy: LateProxy, cast: Sequence[str] = tuple(CAST), module: str = "") -> None:
    """These roles behind the proxy."""
    env = {
        "WATERCLOCK_KAFKA__BOOTSTRAP": f"127.0.0.1:{proxy.port}",
        "WATERCLOCK_RETRY_ROUTER__RECONCILE_EVERY_S": str(_RECONCILE_EVERY_S),
        "WATERCLOCK_WORKER__LEASE_TTL_S": str(_LEASE_S),
    }
    for instance in cast:
        role, args = CAST[instance][0], [CAST[instance][0]] if module else []
        if role == "workers":
            played.add_worker(instance, module=module, args=args, **env)
        else:
            played.stack.role(role, instance, module=module, args=args, **env)
    for instance in cast:
        played.stack.roles[instance].wait_ready()


# Delaying -----------------------------------------------------------------------------------------------------------

How = Callable[[Random], tuple[Moment, bool]]
"""Draws the moment, and whether the role is killed in it."""


def _half_killed(dice: Random) -> tuple[Moment, bool]:
    moment = Moment.OFFSETS if dice.random() < _AT_OFFSETS_PART else Moment.END
    return moment, dice.random() < _KILLED_PART


def _all_killed(_: Random) -> tuple[Moment, bool]:
    return Moment.OFFSETS, True


class _Lane:
    """Delays one EndTxn after the other of one process, the ids that live in it in turn."""

    def __init__(self, played: Scene, proxy: LateProxy, instance: str, how: How) -> None:
        role, roles = CAST[instance]
        names = played.stack.names
        self.process = role
        self._role: RoleProcess = played.stack.roles[instance]
        self._proxy = proxy
        self._ids = itertools.cycle([(word, names.transactional_id(word, instance)) for word in roles])
        self._how = how
        self._dice = Random(played.dice.randrange(1 << 30))
        self._now: tuple[str, str, Delay] | None = None
        self._until_s = time.monotonic()
        self.landed: list[Landed] = []
        self.ended: list[str] = []
        self.missed = 0

    @property
    def is_idle(self) -> bool:
        """Nothing is held back."""
        return self._now is None

    def go_on(self, *, may_begin: bool) -> None:
        """What is due by now."""
        if self._now is not None:
            self._look(*self._now)
        elif said := keep_up(self._role):
            self.ended.append(said)
        elif may_begin and time.monotonic() >= self._until_s and self._role.ready_path.exists():
            self._begin()

    def _begin(self) -> None:
        word, transactional_id = next(self._ids)
        moment, killed = self._how(self._dice)
        assert self._role.process is not None
        then = self._role.process.kill if killed else None  # of this very process, also where it has ended by then
        self._now = word, transactional_id, self._proxy.delay(transactional_id, moment, then)
        self._until_s = time.monotonic() + _COMES_WITHIN_S

    def _look(self, word: str, transactional_id: str, delay: Delay) -> None:
        if delay.done.is_set():
            if delay.error is None:
                self.missed += 1  # the broker gave no answer: nobody knows whether it arrived
            else:
                self.landed.append(Landed(word, delay.moment, delay.then is not None, delay.error))
            if delay.then is not None:
                assert self._role.process is not None
                self._role.process.wait()
                self._role.stop()
                self._role.start()
        elif time.monotonic() < self._until_s:
            return
        else:
            self._proxy.give_up(transactional_id)
            self.missed += 1
        self._now = None
        self._until_s = time.monotonic() + self._dice.uniform(0.0, _PEACE_S)


def _delay(
    played: Scene, proxy: LateProxy, wanted: int, how: How, cast: Sequence[str] = tuple(CAST), events: str = "event-"
) -> tuple[list[Landed], int]:
    """So many late EndTxn over these instances, under load; and how many found no moment to arrive in."""
    lanes = [_Lane(played, proxy, instance, how) for instance in cast]
    load = Load(played, played.dice, events)
    until_s = time.monotonic() + _DELAY_S_MAX * wanted
    while sum(len(lane.landed) for lane in lanes) < wanted or not all(lane.is_idle for lane in lanes):
        for lane in lanes:
            begun = sum(len(lane.landed) + (not lane.is_idle) for lane in lanes)
            lane.go_on(may_begin=begun < wanted)
        if time.monotonic() > until_s:
            raise TimeoutError(f"{sum(len(lane.landed) for lane in lanes)} of {wanted} EndTxn came late")
        load.go_on()
        played.following.glance()
        time.sleep(BREATH_S)
    load.flush()
    for instance in cast:
        keep_up(played.stack.roles[instance])
        played.stack.roles[instance].wait_ready()
    ended = [each for lane in lanes for each in lane.ended]
    played.evidence.figure("lives that ended by themselves", len(ended), last_words=ended[:3])
    return [each for lane in lanes for each in lane.landed], sum(lane.missed for lane in lanes)


# Judging ------------------------------------------------------------------------------------------------------------


def _judge(played: Scene, chronicle: Chronicle, landed: Sequence[Landed], missed: int, size: Size) -> None:
    evidence = played.evidence
    evidence.figure("EndTxn that arrived inside a later open transaction", len(landed), found_none=missed)
    evidence.figure("of which roles", len(landed), **Counter(each.role for each in landed))
    evidence.figure("in which moments", len(landed), **Counter(each.moment.name.lower() for each in landed))
    evidence.figure("with the role killed in that moment", sum(each.killed for each in landed))
    refused = sum(each.error in _EPOCHS for each in landed)
    evidence.figure("refused by the broker for their old epoch", refused, **Counter(each.word for each in landed))
    evidence.demand(len(landed) >= size.delays, f"{len(landed)} EndTxn came late, wanted {size.delays}")
    through = (f"{each.role}: {each.word}, {each.moment.value}" for each in landed if each.error == 0)
    evidence.none_of(through, "late EndTxn that the broker accepted")
    # Nothing is excused: a transaction that one of these had torn would show.
    judge_all(played, chronicle, time.time_ns() // 1_000, Excuses(verdict_within_s=2 * _LEASE_S))


# Without the mitigation ---------------------------------------------------------------------------------------------


def _without(played: Scene, proxy: LateProxy, size: Size) -> None:
    """The same late EndTxn on roles that go on with the producer they have: some round must be torn.

    Not each that the broker accepts tears one: it has to land between two records of the round. So where nothing is
    torn after as many as were wanted, there come as many again, a few times.
    """
    for turn in range(_BARE_TURNS):
        found = _bare_turn(played, proxy, size.bare, turn)
        if found:
            break
    played.evidence.demand(bool(found), "without the mitigation no round was torn: nothing was shown")


def _bare_turn(played: Scene, proxy: LateProxy, wanted: int, turn: int) -> list[str]:
    """The tears after so many late EndTxn more, of a cast that begins anew."""
    _start(played, proxy, _BARE_CAST, _MODULE)
    played.specs = {}
    played.define(jobs(played.dice, _LEAD_S, tenant=f"bare{turn}"))
    landed, missed = _delay(played, proxy, wanted, _all_killed, _BARE_CAST, f"bare-event-{turn}-")
    _go_past(played, f"bare-later-{turn}-")
    played.delete()
    for instance in _BARE_CAST:
        played.stack.roles[instance].kill()  # nobody moves any more: positions and events are of one instant
    played.following.read_on()
    found, counts = _torn(played)
    accepted = sum(each.error == 0 for each in landed)
    evidence = played.evidence
    evidence.figure("without the mitigation: late EndTxn", len(landed), found_none=missed, accepted=accepted)
    evidence.figure("without the mitigation: torn rounds", len(found), **counts)
    for each in found[:3]:
        evidence.figure("without the mitigation: one of them", each)
    evidence.demand(accepted > 0, "without the mitigation the broker accepted no late EndTxn")
    return found


def _go_past(played: Scene, events: str) -> None:
    """Until work that is asked for now was claimed in every partition: the roles have gone past what they left open.

    Those that were killed last would else be judged before they have done again what was committed without them.
    """
    load, seen, claimed = Load(played, played.dice, events), len(played.following.events), set[int]()

    def is_past() -> bool:
        nonlocal seen
        load.go_on()
        played.following.glance()
        for record in played.following.events[seen:]:
            _, event = decode(record["value"])
            if event["kind"] == "STARTED" and event["job_id"].startswith(f"default:{events}"):
                claimed.add(record["partition"])
        seen = len(played.following.events)
        return len(claimed) == played.stack.partitions

    wait_for(is_past, "claims in every partition of what was asked for after the last late EndTxn")
    load.flush()


def _torn(played: Scene) -> tuple[list[str], Counter[str]]:
    """The tears of the jobs that played without the mitigation. Their cast is dead: nothing else can be judged."""
    names, bootstrap, of = played.stack.names, played.stack.bootstrap, (_BARE, "default:bare-")
    work, behind = take_work(bootstrap, names)
    commands = dumps.dump(bootstrap, names.commands)
    complaints, counts = torn.check(
        played.following.events, work, commands, names.job_events, behind, lambda job_id: job_id.startswith(of)
    )
    return complaints, counts
