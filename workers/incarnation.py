"""One life of this worker: init, HELLO, and never a word sent while dead on ``leases``.

What must hold (design §7):

* a life begins with init (which fences whoever had the id) and HELLO in a transaction of our own id; the offset of the
  HELLO is the incarnation's number;
* after every init, also one that doubt made necessary, ``leases`` is read to its end before anything is sent: dead
  there, the life is over (LeaseLost) and the next one begins;
* after a fencing or a death, ``leases`` is read *before* any init: if another process said HELLO under our name since
  our own last init, it lives and we exit (TwinLives). We never fence it back, or the two would do so for ever.

How it fails: LeaseLost (begin again), TwinLives (exit), and what transact raises (the next turn goes on from here).
"""

from __future__ import annotations

from waterclock.clock import Clock
from waterclock.model.errors import Fenced, LeaseLost
from waterclock.model.events import Lease, LeaseKind
from waterclock.transact import Rounds
from waterclock.wire.messages import lease_message
from waterclock.wire.names import Names

from .lease_watch import LeaseWatch
from .leases import Standing, is_dead, twin_of

_NONE = -1


class TwinLives(Fenced):
    """Another process works under our name. Fatal: this one exits, and says which id and why."""

    def __init__(self, transactional_id: str, twin: str) -> None:
        super().__init__(
            f"{transactional_id} belongs to another process now ({twin}). Either two workers were given one instance "
            "name, or this one stood still for longer than its transaction time-out and lease, and was replaced. "
            "If the first: set WATERCLOCK_INSTANCE to a name of its own for each worker"
        )


class Incarnation:
    """The life of ``worker`` in this ``process``: ``number`` is the offset of its HELLO, -1 before one is committed."""

    def __init__(
        self, rounds: Rounds, watch: LeaseWatch, names: Names, clock: Clock, *, worker: str, process: str
    ) -> None:
        self._rounds = rounds
        self._watch = watch
        self._names = names
        self._clock = clock
        self._worker = worker
        self._process = process
        self._init_count = 0
        self._hello_known = _NONE
        self._must_ask = False
        self.number = _NONE
        self.began_at_s = float("-inf")

    @property
    def alive(self) -> bool:
        """Whether a HELLO of this life is committed and nothing is known to have ended it."""
        return self.number != _NONE

    def stand(self) -> None:
        """Before anything is sent: the producer stands, and ``leases`` was read after its init.

        Raises TwinLives, LeaseLost, BackendDown, Fenced.
        """
        if self._must_ask:
            self._exit_if_replaced(self._watch.catch_up())
            self._must_ask = False
        self._rounds.open()
        if self._rounds.init_count != self._init_count:
            standing = self._watch.catch_up()
            self._init_count = self._rounds.init_count
            self._hello_known = standing.hello
            self._end_if_dead(standing)

    def begin(self) -> None:
        """Say HELLO. Raises RoundAborted, RoundInDoubt, Fenced, BackendDown: there is no life then, try again."""
        began_at_s = self._clock.monotonic_s()
        draft = self._rounds.draft()
        hello = Lease(LeaseKind.HELLO, self._worker, self._clock.now(), self._process)
        ticket = draft.append_tracked(lease_message(self._names, hello))
        self._rounds.commit(draft)
        assert ticket.offset is not None, "a landed round knows the offsets of its records"
        self.number = ticket.offset
        self.began_at_s = began_at_s

    def look(self) -> None:
        """Read ``leases`` on. Raises TwinLives, LeaseLost, BackendDown."""
        standing = self._watch.look()
        self._exit_if_replaced(standing)
        self._end_if_dead(standing)

    def fenced(self) -> None:
        """The producer was fenced, by whom is not known: ask ``leases`` before the next init."""
        self._must_ask = True

    def end(self) -> None:
        """This life is over. The next one begins with an init, and before that with the question who lives."""
        self.number = _NONE
        self._rounds.close()
        self._must_ask = True

    def _exit_if_replaced(self, standing: Standing) -> None:
        twin = twin_of(standing, self._process, self._hello_known)
        if twin:
            raise TwinLives(self._rounds.transactional_id, twin)

    def _end_if_dead(self, standing: Standing) -> None:
        if self.alive and is_dead(standing, self.number):
            raise LeaseLost(f"incarnation {self.number} of {self._worker} is dead on leases: {standing}")
