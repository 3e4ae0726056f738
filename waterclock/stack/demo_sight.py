"""What the demo sees: run-events and dead letters, read by a consumer of its own and folded by the one reducer.

So the demo tells what anybody outside would see, and never what a role says of itself. It begins at the end of the
log as of its start: runs of an earlier demo are not counted. What it remembers is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, RunStatus, Skipped
from waterclock.model.fold import Fold
from waterclock.model.ids import Instant
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_dead_letter, decode_event
from waterclock.wire.names import Names

_BATCH = 500
_LAST_RUNS = 10
_LETTERS_KEPT = 1_000


@dataclass(slots=True)
class SeenRun:
    """One run. ``seen_at``: when its PENDING was read here, by this machine's clock; 0 instants: not yet."""

    run_id: str
    job_id: str
    tier: Tier
    origin: Origin
    fire_at: Instant
    seen_at: Instant
    status: RunStatus = RunStatus.PENDING
    started_at: Instant = 0
    ended_at: Instant = 0
    ended_seen_at: Instant = 0
    error: str = ""


@dataclass(slots=True)
class TierCount:
    """How many runs of one tier wait, run, have succeeded and have failed."""

    due: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0


@dataclass(slots=True)
class Letters:
    """The newest dead letters, and how many there were."""

    count: int = 0
    newest: deque[str] = field(default_factory=lambda: deque(maxlen=_LETTERS_KEPT))


class Sight:
    """Reads on at every ``look``. ``generation``: that of the topics, for the fencing tokens. Raises BackendDown."""

    def __init__(self, log: Log, names: Names, clock: Clock, *, generation: int) -> None:
        self.tiers = {tier: TierCount() for tier in Tier}
        self.last: deque[SeenRun] = deque(maxlen=_LAST_RUNS)
        """The runs that were made last, the newest first."""
        self.skipped_count = 0
        self.letters = Letters()
        self._clock = clock
        self._generation = generation
        self._names = names
        self._folds: dict[int, Fold[SeenRun]] = {}
        places = [TopicPartition(t, n) for t in (names.run_events, names.dlq) for n in range(log.partitions(t))]
        self._reader = log.reader(Isolation.COMMITTED)
        self._reader.assign({place: log.high_watermark(place) for place in places})

    def look(self, timeout_s: float) -> list[SeenRun]:
        """What has come, waiting at most ``timeout_s`` for the first of it. Returns the runs that ended now."""
        return [run for record in self._reader.poll(_BATCH, timeout_s) for run in self._take(record)]

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _take(self, record: Record) -> Iterator[SeenRun]:
        try:
            if record.topic == self._names.dlq:
                self.letters.newest.append(decode_dead_letter(record.value or b"").run_id)
                self.letters.count += 1
                return
            event = decode_event(record.value or b"")
        except UndecodableRecord:  # not ours: the roles reject it
            return
        ended = self._apply(event, record)
        if ended is not None:
            yield ended

    def _apply(self, event: RunEvent, record: Record) -> SeenRun | None:
        fold = self._folds.setdefault(record.partition, Fold(generation=self._generation))
        before = fold.open.get(event.run_id)
        verdict = fold.apply(event, record.offset)
        if not verdict.accepted or verdict.state is None:
            return None
        if isinstance(event.detail, Skipped):
            self.skipped_count += event.detail.fire_count
        if before is None and isinstance(event.detail, Pending):
            run = SeenRun(
                event.run_id,
                event.job_id,
                event.detail.tier,
                event.detail.origin,
                event.detail.fire_at,
                self._clock.now(),
            )
            fold.open[event.run_id].note = run
            self.tiers[run.tier].due += 1
            self.last.appendleft(run)
            return None
        if before is None or before.note is None:
            return None
        return self._move(before.note, event, verdict.state.status)

    def _move(self, run: SeenRun, event: RunEvent, status: RunStatus) -> SeenRun | None:
        """The run at its new status; returned when it has ended."""
        if event.kind is EventKind.STARTED:
            run.started_at = event.at
        if isinstance(event.detail, Ended):
            run.ended_at = event.at
            run.error = event.detail.error_message
        if status is run.status:
            return None
        self._count(run, -1)
        run.status = status
        self._count(run, +1)
        if status not in (RunStatus.SUCCEEDED, RunStatus.FAILED):
            return None
        run.ended_seen_at = self._clock.now()
        return run

    def _count(self, run: SeenRun, step: int) -> None:
        tier = self.tiers[run.tier]
        match run.status:
            case RunStatus.PENDING:
                tier.due += step
            case RunStatus.RUNNING | RunStatus.RETRYING:
                tier.running += step
            case RunStatus.SUCCEEDED:
                tier.done += step
            case RunStatus.FAILED:
                tier.failed += step
            case _:
                pass
