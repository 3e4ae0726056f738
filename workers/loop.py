"""The worker, told as a story: what has ended is recorded, what fits is claimed, both in one round; then it runs.

What must hold (design §5 and §7):

* user code runs only after the round that claimed it has landed, so never inside a transaction and never over an
  uncommitted offset; the fencing token is the offset of the STARTED record in that round;
* claims of a round that did not land are void: the partitions start again from what is committed;
* what a handler emitted leaves in the round that records its success, only behind the control barrier, and takes
  nobody else's round down;
* running attempts and unsent outcomes stand under the lease, not under partitions: a rebalance or an aborted round
  touches neither; the end of this incarnation drops both;
* nothing is sent while it is not known that this incarnation lives.

How it fails: every loss leads back to the top of the next turn, which owns again what it needs in one order: producer,
leases, incarnation, the doubtful round, the partitions. A backend that does not answer is asked again, at most once a
second; three quarters of a lease without a beat or a commit end the incarnation. A twin ends the process (TwinLives).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Log
from waterclock.model.errors import (
    BackendDown,
    Fenced,
    LeaseLost,
    LostResource,
    RequestError,
    RoundAborted,
    RoundInDoubt,
)
from waterclock.model.ids import ordinal
from waterclock.round_pace import RoundPace
from waterclock.transact import Round, Rounds
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names

from . import lanes, tiers
from .attempts import Attempts
from .beginnings import Beginnings
from .claims import judge, reject_messages, started_event
from .draining import Drain
from .executors.port import Attempt, Executors
from .heartbeat import Beats, Pulse
from .incarnation import Incarnation, TwinLives
from .lease_watch import LeaseWatch
from .outcomes import Outbox
from .patience import Patience
from .slots import Slots
from .standing_aside import StandingAside

_BREATH_S = 0.005
_IDLE_S = 0.010
_BATCH_WORTH_A_ROUND = 500
_DRAINED_EVERY_S = 5.0
_COMMIT_TIMEOUT_S_MAX = 10.0

logger = structlog.get_logger()


class _Doubt(NamedTuple):
    """A round that may have landed, and what it claimed."""

    draft: Round
    claims: list[Attempt]


class Worker:
    """The core behind its ports; one thread calls it. ``worker`` is the stable name of the process slot.

    ``process`` tells this process from a twin of the same name. ``generation`` is that
    of the run-events topic, for the tokens. ``lease_ttl_s`` is what the keepers are told; a beat goes out every
    ``beat_interval_s``, at most a quarter of it. ``slots`` bounds what is held at once, ``drain_grace_s`` the drain;
    ``cancel_grace_s`` lies between asking an attempt to stop and forcing it.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        names: Names,
        executors: Executors,
        *,
        worker: str,
        process: str,
        slots: int = 32,
        pool: str = "default",
        generation: int = 0,
        lease_ttl_s: float = 15.0,
        beat_interval_s: float = 2.5,
        drain_grace_s: float = 10.0,
        cancel_grace_s: float = 10.0,
        round_claims_max: int = 2_000,
        weights: lanes.PerTier = lanes.WEIGHTS,
        version: str = "",
        tzdata: str = "",
        handlers: Collection[str] = (),
    ) -> None:
        self._clock = clock
        self._log = log
        self._names = names
        self._executors = executors
        self._worker = worker
        self._generation = generation
        self._lease_ttl_s = lease_ttl_s
        self._beat_interval_s = min(beat_interval_s, lease_ttl_s / 4)
        self._drain_grace_s = drain_grace_s
        self._round_claims_max = round_claims_max
        self._weights = weights
        transactional_id = names.transactional_id("worker", worker)
        self._rounds = Rounds(log, transactional_id, commit_timeout_s=min(_COMMIT_TIMEOUT_S_MAX, lease_ttl_s / 3))
        self._slots = Slots(slots)
        self._attempts = Attempts(
            clock, log, names, executors, self._slots, generation=generation, cancel_grace_s=cancel_grace_s
        )
        self._outbox = Outbox(log, names, worker, self._slots, self._attempts)
        self._watch = LeaseWatch(log, names.leases, worker, clock)
        self._incarnation = Incarnation(self._rounds, self._watch, names, clock, worker=worker, process=process)
        pulse = Pulse(
            worker, transactional_id, lease_ttl_s, self._beat_interval_s, version, tzdata, pool, tuple(handlers)
        )
        self._beats = Beats(log.appender(), names, clock, pulse)
        self._beginnings = Beginnings(log, names.run_events)
        self._join = partial(tiers.join, log, names, pool, worker, self._rounds, self._beginnings)
        self._tiers = self._join()
        self._aside = StandingAside(clock, self._slots)
        self._doubt: _Doubt | None = None
        self._credit = lanes.NO_CREDIT
        self._round_pace = RoundPace(clock)
        self._after_round = False
        self._tend_at_s = float("-inf")
        self._drained_at_s = float("-inf")
        self._drain: Drain | None = None
        self._patience = Patience(clock)

    # -- the role -------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether this worker can claim: its HELLO stands and it has joined the group of every tier."""
        return self._incarnation.alive and all(tier.joined for tier in self._tiers)

    def step(self) -> bool:
        """One turn. True: a round was made; False: nothing was due, and the waiting is already done.

        Raises TwinLives when another process has taken our name over; every other loss is dealt with inside.
        """
        return self._turn(taking=True)

    def drain(self) -> bool:
        """One turn of stopping: claims nothing, records what ends. False once nothing is held, or past the grace.

        The groups are left as soon as the last positions are committed: what is due meanwhile is for the others. See
        ``draining.py`` for what becomes of what runs.
        """
        if self._drain is None:
            self._drain = Drain(self._clock, self._attempts, self._slots, self._drain_grace_s, self._worker)
            self._drained_at_s = float("-inf")
        if not self._incarnation.alive or self._drain.is_over():
            return False
        self._drain.tend()
        self._turn(taking=False)
        if self._doubt is not None or any(tier.moved for tier in self._tiers):
            return True
        self._leave()
        return bool(self._slots.held_count)

    def close(self) -> None:
        """Stop user code where that is possible, and close every client. What is held stays open in the log."""
        self._executors.stop(1.0)
        for tier in self._tiers:
            tier.close()
        self._rounds.close()
        self._beats.close()
        self._watch.close()
        self._beginnings.close()
        self._attempts.close()

    # -- one turn -------------------------------------------------------------------------------------------------

    def _turn(self, *, taking: bool) -> bool:
        rest_s = self._patience.rest_s
        if rest_s > 0:
            self._executors.wait(self._slots.capacity + 1, min(rest_s, _IDLE_S))
            return False
        try:
            made_round = self._live(taking=taking)
        except TwinLives:
            self._end("a twin took our name over")
            raise
        except LeaseLost as lost:
            self._end(str(lost))
            return False
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False
        self._patience.succeeded()
        if not made_round:
            self._executors.wait(1, _IDLE_S)
        return made_round

    def _live(self, *, taking: bool) -> bool:
        """Own, tend, record what ended, claim what fits, commit, run."""
        self._own()
        self._tend()
        self._attempts.tend()
        self._pace()
        now_s = self._clock.monotonic_s()
        self._round_pace.began()
        self._outbox.put(self._attempts.take_ended(), self._clock.now(), self._incarnation.number)
        room = self._slots.free + self._outbox.ride()
        self._take(room, now_s, taking=taking and not self._outbox.rides_apart)
        self._step_over_gaps(now_s)
        draft = self._rounds.draft()
        claims = self._write(draft)
        if draft.empty:
            return False
        self._commit(draft, claims)
        self._after_round = True
        return True

    def _own(self) -> None:
        """Everything that must stand before anything is sent, in this order."""
        if self._incarnation.alive:
            self._check_lease()
        self._incarnation.stand()
        if not self._incarnation.alive:
            self._attempts.prepare()
            self._incarnation.begin()
            self._beats.begin(self._incarnation.number, self._incarnation.began_at_s)
            self._executors.allow_until(self._beats.deadline_s)
            self._tend_at_s = float("-inf")
            logger.info("incarnation_began", worker=self._worker, incarnation=self._incarnation.number)
        if self._doubt is not None:
            self._settle(self._doubt)

    def _settle(self, doubt: _Doubt) -> None:
        """A round was in doubt: read one record of it back. Landed, its claims run and its outcomes are recorded."""
        landed = self._rounds.landed(doubt.draft)
        self._doubt = None
        logger.info("doubt_settled", worker=self._worker, landed=landed, claims=len(doubt.claims))
        if landed:
            self._run(doubt.draft, doubt.claims)
        else:
            self._outbox.not_landed("the round got no answer", self._clock.now(), self._incarnation.number)

    def _tend(self) -> None:
        """Leases are read on, and a beat goes out; or it is known that we must stop."""
        self._check_lease()
        now_s = self._clock.monotonic_s()
        if now_s < self._tend_at_s:
            return
        self._tend_at_s = now_s + self._beat_interval_s / 4
        self._incarnation.look()
        if self._beats.due and self._watch.is_fresh(self._lease_ttl_s / 4):
            self._beats.beat(self._slots)
            self._executors.allow_until(self._beats.deadline_s)

    def _check_lease(self) -> None:
        self._beats.check()
        if self._patience.failing_s > 0.75 * self._lease_ttl_s:
            raise LeaseLost("no round could be committed for three quarters of the lease")

    def _pace(self) -> None:
        """A round costs the broker the same for one record as for hundreds: let some gather, but never for long."""
        if not self._after_round:
            return
        self._after_round = False
        enough = max(1, min(self._slots.capacity // 2, _BATCH_WORTH_A_ROUND))
        self._executors.wait(enough, max(self._round_pace.rest_s, _BREATH_S))

    def _take(self, room: int, now_s: float, *, taking: bool) -> None:
        """Work for the free slots, by weight. What ended frees its slot in the very round that records it."""
        if taking and self._belongs():
            self._beginnings.look()
            room = min(room, self._round_claims_max)
            self._credit = lanes.fill(
                room, self._credit, lambda tier, limit: self._tiers[tier].take(limit, now_s), self._weights
            )
        for tier in self._tiers:
            tier.attend(now_s)

    def _belongs(self) -> bool:
        """Whether we are members: who can claim nothing leaves the partitions to others until he can."""
        if not self._tiers and self._aside.is_over:
            self._tiers = self._join()
        elif self._tiers and self._aside.is_due:
            self._leave()
            self._aside.left(self._worker)
        return bool(self._tiers)

    def _leave(self) -> None:
        for tier in self._tiers:
            tier.close(leave=True)
        self._tiers.clear()

    def _step_over_gaps(self, now_s: float) -> None:
        """Every few seconds the positions step over markers, where nothing is undecided: so the lag reads 0."""
        if now_s - self._drained_at_s < _DRAINED_EVERY_S:
            return
        self._drained_at_s = now_s
        for tier in self._tiers:
            if not tier.taken:
                tier.drained()

    def _write(self, draft: Round) -> list[Attempt]:
        """Claims, outcomes, rejects and positions into the round; returns the attempts that it would claim.

        Suspects among the outcomes ride apart: such a round has nothing in it that could be to blame instead.
        """
        names, worker, incarnation = self._names, self._worker, self._incarnation.number
        claims: list[Attempt] = []
        for tier in () if self._outbox.rides_apart else self._tiers:
            if tier.taken:
                now = self._clock.now()
                good, refused = judge(tier.taken, now)
                for attempt, record in good:
                    draft.append_tracked(event_message(names, started_event(attempt, record, worker, incarnation)))
                    claims.append(attempt)
                if refused:
                    draft.extend(reject_messages(self._log, names, refused, now))
            tier.advance(draft)
        outcomes = self._outbox.messages()
        if outcomes and not claims:
            # One record of every round is tracked: it is how a doubtful round is settled.
            draft.append_tracked(outcomes[0])
            draft.extend(outcomes[1:])
        else:
            draft.extend(outcomes)
        return claims

    def _commit(self, draft: Round, claims: list[Attempt]) -> None:
        try:
            with self._round_pace.committing():
                self._rounds.commit(draft)
        except (RoundInDoubt, Fenced):
            # A fenced round too may have landed: its first EndTxn may have been applied before the fencing.
            self._doubt = _Doubt(draft, claims)
            raise
        except RequestError as refused:
            if not self._outbox.carries_emitted:
                raise
            raise RoundAborted(str(refused)) from refused
        for tier in () if self._outbox.rides_apart else self._tiers:
            tier.settled()
        self._run(draft, claims)

    def _run(self, draft: Round, claims: list[Attempt]) -> None:
        """The round has landed: its outcomes are recorded, its claims are ours and run under their tokens."""
        self._outbox.landed()
        if not claims:
            return
        # Claims were appended before everything else that is tracked, so the tickets are in their order.
        for attempt, ticket in zip(claims, draft.tickets.values(), strict=True):
            assert ticket.offset is not None, "a landed round knows the offsets of its records"
            attempt.token = ordinal(self._generation, ticket.offset)
        self._attempts.begin(claims)

    # -- trouble --------------------------------------------------------------------------------------------------

    def _start_over(self, trouble: Exception) -> None:
        """The round is void. Running attempts and unsent outcomes stay; everything else is owned again from the top."""
        if isinstance(trouble, Fenced):
            self._incarnation.fenced()
        if isinstance(trouble, RoundAborted):
            self._outbox.not_landed(str(trouble), self._clock.now(), self._incarnation.number)
        for tier in self._tiers:
            tier.void()
        self._patience.failed()
        logger.warning(
            "round_void",
            worker=self._worker,
            cause=type(trouble).__name__,
            detail=str(trouble),
            attempts_held=self._slots.held_count,
            failures=self._patience.failure_count,
        )

    def _end(self, why: str) -> None:
        """This incarnation is dead: its runs are killed and its outcomes dropped, for nobody would accept them."""
        logger.warning(
            "incarnation_ended",
            worker=self._worker,
            incarnation=self._incarnation.number,
            why=why,
            attempts_killed=self._slots.held_count,
        )
        self._attempts.forget()
        self._outbox.clear()
        self._doubt = None
        self._patience.succeeded()
        self._incarnation.end()
        for tier in self._tiers:
            tier.void()
