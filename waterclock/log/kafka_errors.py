"""The one seam where what the Kafka client raises becomes an error of ours.

Must hold: no driver exception leaves ``waterclock/log/kafka*.py``. A producer's error has four meanings and no fifth
(kafka.md 3.4): somebody fenced us; the transaction must be aborted and the producer lives on; or, for everything
else (a time-out, a broken connection, any error without a flag, any fatal one), nobody knows what became of the
round. In doubt is the safe reading: it costs a new producer, never a lost or doubled round.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from waterclock.model.errors import (
    AccessRefused,
    BackendDown,
    Fenced,
    LostResource,
    NotFound,
    RequestError,
    RoundAborted,
    RoundInDoubt,
    WaterclockError,
)

BACKEND = "kafka"

_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED})
_NO_SUCH = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART})
_REFUSED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
    }
)
OUTSIDE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})
"""What the client reports of a position before or behind a log."""

_OUT_OF_LOG = OUTSIDE | {KafkaError._LOG_TRUNCATION}

_MOVED = frozenset(
    {KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION}
)
# The callbacks bring the loss itself; the end of a partition is no error.
_NEWS = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError._PARTITION_EOF})
_SUPERSEDED = frozenset({KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})

CONNECTION_LOST = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})
"""What the client reports in the background when an answer may have been lost."""

NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
"""What the client reports in the background when a broker does not take us, or we do not take its certificate."""

NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""What a broker answers where an ACL is missing."""

ALL_DOWN = KafkaError._ALL_BROKERS_DOWN


class LeaderMoved(BackendDown):
    """The client asked by what it knew of a partition's leader before: ask again once it knows anew (KIP-320)."""


FORGOTTEN = KafkaError.INVALID_PRODUCER_ID_MAPPING
"""The coordinator has dropped the transactional id, as it does after seven days without a transaction
(``transactional.id.expiration.ms``). The client takes that for a round to be aborted, and meets it again in each one
after: only the init of a new producer makes the id known again."""


def error_of(raised: KafkaException) -> KafkaError:
    """The client's error inside its exception."""
    error = raised.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def round_error(error: KafkaError, doing: str) -> Fenced | RoundAborted | RoundInDoubt:
    """What an error of a transactional producer means for the round."""
    code = error.code()
    text = f"{doing}: {error.name()}, {error.str()}"
    if code in _FENCED or (error.fatal() and code == KafkaError.INVALID_PRODUCER_EPOCH):
        return Fenced(f"{text} (a newer producer has this id, or the transaction timed out)")
    if error.txn_requires_abort() and code != FORGOTTEN:
        return RoundAborted(text)
    return RoundInDoubt(text)


def append_error(error: KafkaError, doing: str) -> WaterclockError:
    """What the refusal of one record means. A RequestError leaves the round as it was: that record alone is not in it.

    ``_STATE`` is the client's answer once the open transaction has failed in the background: it must be aborted.
    """
    code = error.code()
    text = f"{doing}: {error.name()}, {error.str()}"
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return RequestError(text, hint="Send less: records are capped at the topic's max.message.bytes")
    if code in _NO_SUCH:
        return NotFound(text, hint="Create the topic first")
    if code == KafkaError._STATE:
        return RoundAborted(text)
    return round_error(error, doing)


def init_error(error: KafkaError, doing: str) -> WaterclockError:
    """What a failed ``init`` means: fenced for good, or no coordinator that would have us now."""
    if error.code() in NOT_ALLOWED:
        return AccessRefused(BACKEND, f"{doing}: {error.name()}, {error.str()}")
    found = round_error(error, doing)
    return found if isinstance(found, Fenced) else BackendDown(BACKEND, str(found))


def commit_error(error: KafkaError, doing: str) -> WaterclockError:
    """What the refusal of a plain commit means: stale membership or metadata too long, or no broker took it."""
    text = f"{doing}: {error.name()}, {error.str()}"
    if error.code() in _REFUSED:
        return RoundAborted(text)
    if error.code() == KafkaError.FENCED_INSTANCE_ID or error.fatal():
        return Fenced(text)
    if error.code() in NOT_ALLOWED:
        return AccessRefused(BACKEND, text)
    return BackendDown(BACKEND, text)


def query_error(error: KafkaError, doing: str, refusal: KafkaError | None = None) -> WaterclockError:
    """What a failed question means: no such topic or partition, not for us, or nobody answered.

    ``refusal``: what the client's watch has heard; without it a wrong password looks like a broker that is away.
    """
    text = f"{doing}: {error.name()}, {error.str()}"
    if error.code() in NOT_ALLOWED:
        return AccessRefused(BACKEND, text)
    if refusal is not None and error.code() in CONNECTION_LOST:
        return AccessRefused(BACKEND, f"{doing}: {refusal.str()}")
    if error.code() in _NO_SUCH:
        return NotFound(text, hint="Create the topic first")
    return (LeaderMoved if error.code() in _MOVED else BackendDown)(BACKEND, text)


def down_error(error: KafkaError, who: str) -> BackendDown:
    """What the background's report means that no broker is left: away, or not for us."""
    kind = AccessRefused if error.code() in NOT_LET_IN else BackendDown
    return kind(BACKEND, f"{who}: {error.str()}")


def poll_trouble(error: KafkaError, where: str) -> WaterclockError | None:
    """What an error message among polled records means; None where it is no more than news."""
    code = error.code()
    text = f"{where}: {error.name()}, {error.str()}"
    if code in _NEWS:
        return None
    if code in _SUPERSEDED or error.fatal():
        return Fenced(f"{text} (another member has this instance name)")
    if code in _OUT_OF_LOG:
        return LostResource(f"{text} (the position is not in the log)")
    if code in NOT_LET_IN or code in NOT_ALLOWED:
        return AccessRefused(BACKEND, text)
    return BackendDown(BACKEND, text)
