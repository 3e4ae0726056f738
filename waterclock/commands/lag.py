"""``waterclock lag``: how far behind each group is, in the columns of ``kafka-consumer-groups``.

Committed positions are asked for with ``require_stable``: of a round that is just being committed the answer waits, so
that a lag is never seen that is already gone. A group that commits its position when nothing is outstanding reads 0.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from waterclock.model.errors import BackendDown
from waterclock.settings import Settings

from .connect import here
from .output import OutputOption, say, show_rows

app = typer.Typer(add_completion=False, help="How far behind each group is.", invoke_without_command=True)

_TIMEOUT_S = 10.0
_COLUMNS = (
    "group",
    "topic",
    "partition",
    "current_offset",
    "log_end_offset",
    "lag",
    "consumer_id",
    "host",
    "client_id",
)


class _Member(NamedTuple):
    consumer_id: str
    host: str
    client_id: str


_NOBODY = _Member("-", "-", "-")


@app.callback()
def lag(
    group: Annotated[list[str] | None, typer.Option("--group", help="Only these [all under the prefix]")] = None,
    output: OutputOption = None,
) -> None:
    """Show the lag of each group, topic and partition; the sum goes to stderr."""
    settings = here()
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap, "log_level": 0, **settings.kafka.client})
    rows = lag_rows(admin, group or groups_of(admin, settings))
    show_rows(rows, _COLUMNS, output)
    if rows:
        say(f"lag in all: {sum(row['lag'] for row in rows)}")
    else:
        say(f"no groups under {settings.kafka.prefix!r}: do the roles run? `waterclock status`")


def groups_of(admin: AdminClient, settings: Settings) -> list[str]:
    """The groups under our prefix."""
    found = _answer(admin.list_consumer_groups(request_timeout=_TIMEOUT_S)).valid
    return sorted(each.group_id for each in found if each.group_id.startswith(f"{settings.kafka.prefix}."))


def lag_rows(admin: AdminClient, groups: list[str]) -> list[dict[str, Any]]:
    """A row for each group, topic and partition that has a committed position. Raises BackendDown."""
    if not groups:
        return []
    positions = {group: _committed(admin, group) for group in groups}
    places = {(at.topic, at.partition) for found in positions.values() for at in found}
    ends = _ends(admin, sorted(places))
    owners = _owners(admin, groups)
    return [
        {
            "group": group,
            "topic": at.topic,
            "partition": at.partition,
            "current_offset": at.offset,
            "log_end_offset": ends[at.topic, at.partition],
            "lag": max(0, ends[at.topic, at.partition] - at.offset),
            **owners.get((group, at.topic, at.partition), _NOBODY)._asdict(),
        }
        for group, found in positions.items()
        for at in sorted(found, key=lambda at: (at.topic, at.partition))
    ]


def _committed(admin: AdminClient, group: str) -> list[TopicPartition]:
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=_TIMEOUT_S
    )
    return [at for at in _answer(asked[group]).topic_partitions if at.offset >= 0 and not at.error]


def _ends(admin: AdminClient, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    if not places:
        return {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
    asked = admin.list_offsets({TopicPartition(*place): latest for place in places}, request_timeout=_TIMEOUT_S)
    return {(at.topic, at.partition): _answer(future).offset for at, future in asked.items()}


def _owners(admin: AdminClient, groups: list[str]) -> dict[tuple[str, str, int], _Member]:
    """Who holds each partition of each group now."""
    asked = admin.describe_consumer_groups(groups, request_timeout=_TIMEOUT_S)
    return {
        (group, at.topic, at.partition): _Member(member.member_id, member.host, member.client_id)
        for group, future in asked.items()
        for member in _answer(future).members
        for at in (member.assignment.topic_partitions if member.assignment else ())
    }


def _answer(future: Any) -> Any:
    try:
        return future.result(_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        raise BackendDown("kafka", f"no answer about groups within {_TIMEOUT_S:.0f} s: {error}") from error
