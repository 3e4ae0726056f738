"""Worker slots: how many attempts this worker holds at once, and which.

An attempt holds its slot from the commit of its STARTED to the commit of its outcome, not merely to the end of user
code. So the slots bound everything at once: runs in flight, outcomes waiting for a round, and the size of a round.

Code that would not stop keeps its slot even after that (*stuck*): a thread cannot be taken from it, and whoever was
given the slot would wait for one. That holds beyond the end of the incarnation that claimed it (*left behind*), until
its thread says that it is free: nobody waits for its end then, which may have been dropped.

Count and XOR of the tokens held ride in every heartbeat, so that an attempt that one side has forgotten is noticed.
What is left behind is not among them: it is lost with its incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable

from .executors.port import Attempt


class Slots:
    """Room for ``capacity`` attempts (> 0)."""

    def __init__(self, capacity: int) -> None:
        if capacity <= 0:
            raise ValueError(f"a worker needs at least one worker slot, not {capacity}")
        self.capacity = capacity
        self.held_xor = 0
        # In the order of their claims: attempts are told apart by identity, and a set of them has another order in each
        # process. In what is held stands what is asked about, stopped and told first.
        self._held: dict[Attempt, None] = {}
        self._by_run: dict[str, dict[Attempt, None]] = {}
        """The same by run, nodes by their DagRun: whoever is named is found among thousands without a look at each."""
        self._stuck: set[Attempt] = set()
        self._left_behind: set[Attempt] = set()

    @property
    def held_count(self) -> int:
        """Attempts whose STARTED is committed and whose outcome is not."""
        return len(self._held)

    @property
    def free(self) -> int:
        """How many more attempts may be held."""
        taken = len(self._held.keys() | self._stuck) if self._stuck else len(self._held)
        return self.capacity - taken - len(self._left_behind)

    @property
    def stuck_count(self) -> int:
        """Attempts whose code runs on although all is said of them."""
        return len(self._stuck)

    @property
    def left_behind_count(self) -> int:
        """Attempts of earlier incarnations that keep a thread, as of the last look."""
        return len(self._left_behind)

    def held(self) -> list[Attempt]:
        """Everything that is held now, in the order in which it was claimed."""
        return list(self._held)

    def held_of(self, run_ids: Iterable[str]) -> list[Attempt]:
        """Those of these runs, and their nodes; whose round came first stands first, in every process alike."""
        named = frozenset(run_ids)
        found = [
            attempt
            for whole_run in {_whole_run(run_id) for run_id in named}
            for attempt in self._by_run.get(whole_run, ())
            if whole_run in named or attempt.work.run_id in named
        ]
        return sorted(found, key=lambda each: (each.claim_number, each.token, each.work.run_id))

    def holds(self, attempt: Attempt) -> bool:
        """Whether this very attempt is still ours; False for one that was forgotten."""
        return attempt in self._held

    def hold(self, attempts: Iterable[Attempt]) -> None:
        """Give each a slot. Their STARTED is committed."""
        for attempt in attempts:
            self._held[attempt] = None
            self._by_run.setdefault(_whole_run(attempt.work.run_id), {})[attempt] = None
            self.held_xor ^= attempt.token
        # The loop's share and its release in the same round keep this true; anything else is a bug.
        assert self.free >= 0, (
            f"{len(self._held)} attempts, {len(self._stuck)} stuck and {len(self._left_behind)} left behind "
            f"in {self.capacity} slots"
        )

    def release(self, attempts: Iterable[Attempt]) -> None:
        """Free the slots of these. Their outcome is committed."""
        for attempt in attempts:
            del self._held[attempt]
            of_run = self._by_run[whole_run := _whole_run(attempt.work.run_id)]
            del of_run[attempt]
            if not of_run:
                del self._by_run[whole_run]
            self.held_xor ^= attempt.token

    def stick(self, attempt: Attempt) -> None:
        """Its code runs on: the slot stays taken until ``unstick``, held or not."""
        self._stuck.add(attempt)

    def unstick(self, attempt: Attempt) -> bool:
        """Its code has ended; answers whether it was stuck."""
        if attempt not in self._stuck:
            return False
        self._stuck.remove(attempt)
        return True

    def is_stuck(self, attempt: Attempt) -> bool:
        """Whether the slot of this one stays taken when it is released."""
        return attempt in self._stuck

    def look_behind(self) -> None:
        """Free the slots of those left behind whose threads are free."""
        if self._left_behind:
            self._left_behind = {attempt for attempt in self._left_behind if attempt.is_in_thread}

    def clear(self) -> None:
        """Forget all: the incarnation that held them is over. What keeps a thread keeps its slot."""
        self._left_behind.update(self._held, self._stuck)
        self.look_behind()
        self._held.clear()
        self._by_run.clear()
        self._stuck.clear()
        self.held_xor = 0


def _whole_run(run_id: str) -> str:
    """The run; of a node its DagRun."""
    return run_id.partition("/")[0]
