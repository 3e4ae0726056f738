"""What the groups of a real Kafka have committed, asked from outside: no membership, no position of one's own.

While a round moves a partition, and for a moment behind its commit, the broker does not tell its position but answers
with an error for it. Such a partition is asked for again: left out it would look as if nothing had ever been committed
for it. Whoever only looks on may ask for what stood before the round. How it fails: BackendDown after 10 s.

Danger: librdkafka (2.16) takes an administrator for a member where it is told that the broker is not the group's
coordinator, not yet or not any more, and the process ends with a segmentation fault. That was seen on a fresh broker
and on one that had given a coordinator up. So a question comes first that does no harm, until it is answered; what is
left is a coordinator that moves in between.
"""

from __future__ import annotations

import time
from threading import Event
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND
from .port import Committed, TopicPartition

TIMEOUT_S = 10.0
_ASK_AGAIN_S = 0.1
_ROUND_LASTS_S = 0.02
_NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def committed_of(admin: AdminClient, group: str, *, stable: bool = True) -> dict[TopicPartition, Committed]:
    """Every position that ``group`` has committed. Raises BackendDown.

    ``stable``: each as of a moment at which no round was moving it, which is waited for, and for 10 s at most; else as
    it stood before the round.
    """
    if not _is_coordinated(admin, group):
        return {}
    found: dict[TopicPartition, Committed] = {}
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        told, moving = _told(admin, group, stable=stable)
        found |= told
        moving -= found.keys()
        if not moving:
            return {place: position for place, position in found.items() if position.offset >= 0}
        if time.monotonic() >= until_s:
            places = ", ".join(f"{at.topic}[{at.partition}]" for at in sorted(moving))
            raise BackendDown(
                BACKEND, f"{group}: a round has been moving its positions for {TIMEOUT_S:.0f} s: {places}"
            )
        Event().wait(_ROUND_LASTS_S)  # time.sleep fails (EINVAL) where a wall clock is faked under the process


def _told(
    admin: AdminClient, group: str, *, stable: bool
) -> tuple[dict[TopicPartition, Committed], set[TopicPartition]]:
    """The positions that the coordinator tells (-1: none yet), and the partitions that a round is moving."""
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=stable, request_timeout=TIMEOUT_S
    )
    told: dict[TopicPartition, Committed] = {}
    moving: set[TopicPartition] = set()
    for at in answer(asked[group]).topic_partitions:
        place = TopicPartition(at.topic, at.partition)
        if at.error is None:
            told[place] = Committed(at.offset, (at.metadata or "").rstrip("\0"))
        elif at.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            moving.add(place)
        else:
            raise BackendDown(BACKEND, f"{group}: no position of {at.topic}[{at.partition}]: {at.error}")
    return told, moving


def instances_of(admin: AdminClient, group: str) -> frozenset[str]:
    """The static names of the group's members. Raises BackendDown."""
    described = _described(admin, group)
    members = described.members if described is not None else ()
    return frozenset(member.group_instance_id for member in members if member.group_instance_id)


def _is_coordinated(admin: AdminClient, group: str) -> bool:
    """Wait until the group's coordinator answers for it; False: there is no such group. Raises BackendDown."""
    return _described(admin, group) is not None


def _described(admin: AdminClient, group: str) -> Any | None:
    """The group, once its coordinator answers for it; None: there is no such group. Raises BackendDown."""
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result(TIMEOUT_S + 1)
        except (KafkaException, TimeoutError) as error:
            code = error.args[0].code() if isinstance(error, KafkaException) else None
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            if code not in _NOT_YET or time.monotonic() >= until_s:
                raise BackendDown(BACKEND, f"the coordinator of {group} does not answer: {error}") from error
        Event().wait(_ASK_AGAIN_S)  # time.sleep fails (EINVAL) where a wall clock is faked under the process


def answer(future: Any) -> Any:
    """What the administrator's client was answered. Raises BackendDown."""
    try:
        return future.result(TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        raise BackendDown(BACKEND, f"no answer about groups within {TIMEOUT_S:.0f} s: {error}") from error
