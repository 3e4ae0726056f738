"""Whether a job's pool can take its runs."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from waterclock.log.port import Outgoing
from waterclock.model.dag_work import topics_of
from waterclock.model.document import is_pool_name
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.job import JobSpec
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

log_ = structlog.get_logger("dispatcher")


def check_pool(pools: Pools, spec: JobSpec) -> None:
    """Refuse a pool without topics: an unknown topic would block every round of the shard (kafka.md 3.3)."""
    try:
        for tier, pool in topics_of(spec):
            if pool != "default" and is_pool_name(pool):  # what is no name at all is refused with the rest of the spec
                pools.check(tier, pool)
    except NotFound as error:  # it is the request that is wrong: the job itself may well exist
        raise RequestError(error.message, pointer=error.pointer, hint=error.hint) from error


def has_to_ask(pools: Pools, names: Names, messages: Sequence[Outgoing]) -> bool:
    """Whether the log has to be asked before it is known which of these have topics to go to."""
    topics = {message.topic for message in messages}
    return any(names.is_of_named_pool(topic) and not pools.remembers(topic) for topic in topics)


def leave_out_gone(pools: Pools, names: Names, messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
    """The records of a round without the work for pools that were taken away since their jobs were checked.

    One such record would hold up all of the shards, for ever. Its run waits, as do those whose work went with the
    topic. Raises BackendDown: it was not asked for yet, or there was trouble, and no broker answers.
    """
    topics = {message.topic for message in messages}
    gone = {topic for topic in topics if names.is_of_named_pool(topic) and not pools.has(topic)}
    if not gone:
        return messages
    left = [message for message in messages if message.topic not in gone]
    log_.error("a pool was taken away: its runs wait without their work", topics=sorted(gone),
               runs=len(messages) - len(left))  # fmt: skip
    return left
