"""The table of crash points: for each its core, its place, when it strikes there, and what is half done then.

A place is ``module:function`` or ``module:Class.function`` of the product (one of the handlers that the checks run).
BEFORE and AFTER its call; FLUSHED and SENT: before and after it, with every record of the open transaction acknowledged
by the broker, so that the successor meets them. ``most``: a strike draws its visit from 1 to this.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tests.failpoints.visits import Only, any_call, filled, holds_early, id_of, in_round, something, word

ROLE_OF = {
    "dispatcher": "dispatcher",
    "worker": "workers",
    "router": "retry_router",
    "ladder": "retry_router",
    "keeper": "retry_router",
    "recorder": "recorder",
    "intake": "intake",
    "api": "api",
}
"""The module of the process in which each core lives."""

_INIT = "waterclock.log.kafka_producer:KafkaProducer.init"
_OFFSETS = "waterclock.log.kafka_producer:KafkaProducer.send_offsets"
_COMMIT = "waterclock.log.kafka_producer:KafkaProducer.commit"
_SEND = "waterclock.transact:Rounds._send"
_STORE = "waterclock.store.tabular:TabularStore"
_APP = "tests.acceptance.calling_app"
_DISPATCHER = "waterclock.dispatcher"
_WORKER = "waterclock.workers"
_ROUTER = "waterclock.retry_router"
_RECORDER = "waterclock.recorder"


class When(Enum):
    """On which side of the call."""

    BEFORE = "before"
    AFTER = "after"
    FLUSHED = "before, with what was produced on the broker"
    SENT = "after, with what was produced on the broker"


class Provoke(Enum):
    """What has to happen elsewhere, else nobody comes by."""

    NOTHING = "nothing"
    DEATH = "another worker dies holding attempts, and is back at once"
    SILENCE = "another worker dies and stays away beyond its lease"


class Point(NamedTuple):
    """One crash point."""

    name: str
    place: str
    when: When
    means: str
    only: Only = any_call
    most: int = 1
    provoke: Provoke = Provoke.NOTHING

    @property
    def core(self) -> str:
        """The first word of its name."""
        return self.name.partition(".")[0]

    @property
    def role(self) -> str:
        """The module of its process."""
        return ROLE_OF[self.core]


_B, _A, _F = When.BEFORE, When.AFTER, When.FLUSHED
_MADE, _BEGUN = in_round("dispatcher", "run.pending"), in_round("worker", "run.started")
_ENDED, _AGAIN = in_round("worker", "run.succeeded"), in_round("retry-router", "run.retrying")
_LETTER, _LOST = in_round("retry-router", ".dlq"), in_round("retry-router", "run.attempt-lost")
_HOP, _PASSED = in_round("retry-ladder", ""), in_round("intake", ".commands")
_KEPT_BY_ROUTER, _KEPT = in_round("retry-router", ".state.retry-router"), in_round("recorder", ".state.recorder")

POINTS: tuple[Point, ...] = (
    # Dispatcher ------------------------------------------------------------------------------------------------------
    Point("dispatcher.before-init", _INIT, _B, "nothing is ours yet: the dead one's round is still open"),
    Point("dispatcher.after-init", _INIT, _A, "the predecessor is fenced, nothing is read"),
    Point("dispatcher.taken-over", f"{_DISPATCHER}.loop:take_over", _A, "a shard is rebuilt, its reading not begun"),
    Point(
        "dispatcher.after-seek",
        "waterclock.log.kafka_consumer:KafkaConsumer.start",
        _A,
        "the shards stand at their commands, no fire is decided",
    ),
    Point("dispatcher.before-rows", f"{_STORE}.apply", _B, "commands are decided, none is written", something(1), 4),
    Point(
        "dispatcher.between-versions-and-due",
        f"{_STORE}._write",
        _B,
        "job_versions has the version, due not its rows",
        word(1, "apply:due"),
        4,
    ),
    Point(
        "dispatcher.between-due-and-jobs",
        f"{_STORE}._write",
        _B,
        "due and the listing are written, the job's own row is not",
        word(1, "apply:jobs"),
        4,
    ),
    Point("dispatcher.rows-written", f"{_STORE}.apply", _A, "the rows stand, no round says so", something(1), 4),
    Point(
        "dispatcher.looked-ahead",
        f"{_STORE}.write_due",
        _A,
        "the next rows of a minute are written, its window is not loaded",
        something(1),
        2,
    ),
    Point("dispatcher.before-round", _SEND, _B, "fires are decided, nothing is sent", _MADE, 8),
    Point("dispatcher.before-offsets", _OFFSETS, _F, "runs and work lie uncommitted, the cursor does not", _MADE, 8),
    Point("dispatcher.before-commit", _COMMIT, _F, "all of the round lies uncommitted", _MADE, 8),
    Point("dispatcher.after-commit", _COMMIT, _A, "the round has landed, nobody here knows", _MADE, 8),
    Point(
        "dispatcher.herd-sent",
        "waterclock.transact:Rounds.send_early",
        When.SENT,
        "a herd lies uncommitted, its instant has not come",
        id_of("dispatcher"),
        4,
    ),
    Point("dispatcher.herd-due", _SEND, _B, "all of a herd is decided, no offset is sent", something(3), 4),
    Point(
        "dispatcher.herd-given-up",
        "waterclock.transact:Rounds.give_up_early",
        _B,
        "a herd lies uncommitted, and will not be committed so",
        holds_early,
        2,
    ),
    Point(
        "dispatcher.errand-answered",
        f"{_DISPATCHER}.store_thread:_Given.make",
        _A,
        "the store has answered beside the rounds, nobody has taken the answer",
        any_call,
        3,
    ),
    # Worker ----------------------------------------------------------------------------------------------------------
    Point("worker.after-init", _INIT, _A, "the older life is fenced, no HELLO says so", id_of("worker")),
    Point(
        "worker.after-hello",
        f"{_WORKER}.incarnation:Incarnation.begin",
        _A,
        "HELLO is committed, the first beat not sent",
    ),
    Point("worker.after-beat", f"{_WORKER}.heartbeat:Beats.beat", _A, "a beat is on its way", any_call, 3),
    Point(
        "worker.after-seek",
        "waterclock.log.kafka_consumer:KafkaConsumer.start",
        _A,
        "a tier's partitions stand at their positions, nothing is taken",
        any_call,
        3,
    ),
    Point("worker.before-claim", _SEND, _B, "work is taken, no STARTED sent", _BEGUN, 8),
    Point("worker.claim-before-offsets", _OFFSETS, _F, "STARTED lies uncommitted, its offset does not", _BEGUN, 8),
    Point("worker.claim-before-commit", _COMMIT, _F, "STARTED and its offset lie uncommitted", _BEGUN, 8),
    Point(
        "worker.claimed",
        f"{_WORKER}.attempts:Attempts.begin",
        _B,
        "STARTED is committed, the handler not called",
        something(1),
        8,
    ),
    Point("worker.called", f"{_APP}:_call_async", _A, "the world has changed, the handler has not ended", any_call, 8),
    Point(
        "worker.handler-ended",
        f"{_WORKER}.attempts:Attempts.take_ended",
        _A,
        "handlers have ended, no round carries it",
        filled,
        8,
    ),
    Point("worker.outcome-before-commit", _COMMIT, _F, "outcome and emitted records lie uncommitted", _ENDED, 8),
    Point("worker.outcome-landed", _COMMIT, _A, "outcome and records are committed, the slots still taken", _ENDED, 8),
    # Retry router: router, ladder, keeper ----------------------------------------------------------------------------
    Point("router.after-init", _INIT, _A, "the predecessor is fenced, nothing is read", id_of("retry-router")),
    Point(
        "router.taken-over",
        f"{_ROUTER}.shard:Shard.__init__",
        _A,
        "a partition's state is restored, its reading not begun",
        any_call,
        2,
    ),
    Point(
        "router.verdict-decided",
        f"{_ROUTER}.verdicts:Verdicts.messages",
        _A,
        "verdicts are decided, nothing sent",
        filled,
        4,
    ),
    Point("router.verdict-before-offsets", _OFFSETS, _F, "RETRYING and its work lie uncommitted", _AGAIN, 4),
    Point("router.verdict-landed", _COMMIT, _A, "verdict and work are committed, the ladder has not moved", _AGAIN, 4),
    Point(
        "router.letter-before-commit", _COMMIT, _F, "a dead letter and the position past its verdict lie open", _LETTER
    ),
    Point("router.letter-landed", _COMMIT, _A, "the letter is committed, nobody here knows", _LETTER),
    Point("router.kept-before-commit", _COMMIT, _F, "kept runs lie uncommitted beside verdicts", _KEPT_BY_ROUTER, 4),
    Point(
        "router.kept-landed", _COMMIT, _A, "kept runs stand in the state topic, nobody here knows", _KEPT_BY_ROUTER, 4
    ),
    Point("router.before-lost", _SEND, _B, "a death is read, no LOST is sent", _LOST, 1, Provoke.DEATH),
    Point("router.lost-before-commit", _COMMIT, _F, "LOST lies uncommitted", _LOST, 1, Provoke.DEATH),
    Point(
        "ladder.taken-over",
        f"{_ROUTER}.rung:Rung.start",
        _A,
        "a rung stands at its position, nothing is held",
        any_call,
        4,
    ),
    Point("ladder.hop-before-offsets", _OFFSETS, _F, "the next hop lies uncommitted, its position does not", _HOP, 4),
    Point("ladder.hop-landed", _COMMIT, _A, "the hop is committed, the rung has not moved on", _HOP, 4),
    Point(
        "keeper.before-fence",
        f"{_ROUTER}.keeper:fence",
        _B,
        "a worker is judged silent, nothing is done",
        any_call,
        1,
        Provoke.SILENCE,
    ),
    Point(
        "keeper.before-fenced",
        f"{_ROUTER}.fencing:lease_message",
        _B,
        "the worker's id is taken, no FENCED says so",
        any_call,
        1,
        Provoke.SILENCE,
    ),
    Point(
        "keeper.after-fenced",
        f"{_ROUTER}.keeper:fence",
        _A,
        "FENCED is committed, no LOST follows yet",
        any_call,
        1,
        Provoke.SILENCE,
    ),
    # Recorder --------------------------------------------------------------------------------------------------------
    Point("recorder.before-rows", f"{_STORE}.record", _B, "a batch is folded, nothing is written", any_call, 4),
    Point("recorder.rows-under-way", f"{_STORE}.record", _A, "rows are on their way, none awaited", any_call, 4),
    Point(
        "recorder.rows-written",
        f"{_RECORDER}.writes:Writes.settle",
        _A,
        "rows are acknowledged, positions not committed",
        any_call,
        4,
    ),
    Point("recorder.before-offsets", _OFFSETS, _B, "rows are written, a round is open", in_round("recorder"), 4),
    Point("recorder.before-commit", _COMMIT, _F, "the positions lie uncommitted", in_round("recorder"), 4),
    Point("recorder.kept-before-commit", _COMMIT, _F, "kept runs lie uncommitted beside positions", _KEPT, 4),
    Point("recorder.kept-landed", _COMMIT, _A, "kept runs stand in the state topic, nobody here knows", _KEPT, 4),
    Point(
        "recorder.committed",
        f"{_RECORDER}.loop:Recorder._commit",
        _A,
        "positions are committed, the next batch not begun",
        any_call,
        4,
    ),
    # Intake ----------------------------------------------------------------------------------------------------------
    Point("intake.after-init", _INIT, _A, "the predecessor is fenced, nothing is read"),
    Point("intake.before-round", _SEND, _B, "events are read and judged, no command is sent", _PASSED, 6),
    Point("intake.before-offsets", _OFFSETS, _F, "commands lie uncommitted, the positions do not", _PASSED, 6),
    Point("intake.before-commit", _COMMIT, _F, "all of the round lies uncommitted", _PASSED, 6),
    Point("intake.after-commit", _COMMIT, _A, "commands are committed, nobody here knows", _PASSED, 6),
    # API -------------------------------------------------------------------------------------------------------------
    Point(
        "api.before-append",
        "waterclock.api.outbox:Outbox._send",
        _B,
        "requests are taken, no command is sent",
        any_call,
        6,
    ),
    Point(
        "api.acknowledged", "waterclock.api.outbox:Outbox._send", _A, "commands stand, nobody was answered", any_call, 6
    ),
    Point(
        "api.before-answer-kept",
        "waterclock.api.repeats:_keep",
        _B,
        "the dispatcher has answered, no answer is kept",
        any_call,
        6,
    ),
    Point(
        "api.answer-kept", "waterclock.api.repeats:_keep", _A, "the answer is kept, the client has none", any_call, 6
    ),
)

BY_NAME = {point.name: point for point in POINTS}
