"""What a record on a topic starts: one TRIGGER for each job that waits for such a record. Pure.

What must hold: the command's id follows from the record's place alone, and from the topic's own id, for a topic that is
made anew repeats its offsets: so whoever sends it again sends the same, and the shard owner knows it by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from waterclock.log.port import UNREADABLE, Outgoing, Record
from waterclock.model.document import PAYLOAD_MAX
from waterclock.model.errors import RequestError
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.ids import Instant, split_job_id
from waterclock.model.job import Command, CommandKind
from waterclock.model.sources import Sources, may_hear
from waterclock.model.triggers import JobTriggers, RecordComes
from waterclock.wire.messages import command_message, reject_message
from waterclock.wire.names import Names

ACTOR = "trigger"

STARTED_MAX = 50
"""Jobs that one record starts: each is given its value, and all of them go in one round."""


class Answer(NamedTuple):
    """What a record brings: commands, or a word about why there is none, or not for all."""

    messages: tuple[Outgoing, ...]
    size: int


class Heard(NamedTuple):
    """A record that waits for its answer. ``value_bytes``: how long its value was before it was cut."""

    record: Record
    value_bytes: int


def heard(record: Record) -> Heard:
    """A record as it is held: no longer value than runs may have, and what tells that it was longer."""
    value = record.value or b""
    if len(value) > PAYLOAD_MAX:
        record = record._replace(value=value[:PAYLOAD_MAX])
    return Heard(record, len(value))


def waits_for(sources: Sources, standing: JobTriggers) -> dict[str, Instant]:
    """By topic, since when its records start the job: those that the setting names for its tenant, and no others."""
    found: dict[str, Instant] = {}
    tenant = split_job_id(standing.job_id)[0]
    for each, since in zip(standing.on.conditions, standing.on.since, strict=False):
        if isinstance(each, RecordComes) and may_hear(sources, tenant, each.topic):
            found[each.topic] = min(since, found.get(each.topic, since))
    return found


def answer(names: Names, heard: Heard, topic_id: str, listeners: Iterable[JobTriggers], now: Instant) -> Answer:
    """What follows from a record. Looks at all ``listeners``: the bound is on those that it passes."""
    record = heard.record
    if record.headers == UNREADABLE:
        if next(iter(listeners), None) is None:
            return Answer((), 0)
        return _answer(_reject(names, heard, RequestError("a header's name is not UTF-8", hint="Rename it"), now))
    headers = dict(record.headers)  # the last one of a name counts
    passing = [(each, met) for each in listeners if (met := each.on.places_passed_by(record.topic, headers))]
    if not passing:
        return Answer((), 0)
    errors = []
    if heard.value_bytes > PAYLOAD_MAX and any(not each.on.within_us for each, _ in passing):
        errors.append(_too_large(heard))
        passing = [(each, met) for each, met in passing if each.on.within_us]
    if len(passing) > STARTED_MAX:
        errors.append(_too_many([each for each, _ in passing[STARTED_MAX:]]))
    starts = (_start(heard, topic_id, each, met, now) for each, met in islice(passing, STARTED_MAX))
    commands = [command_message(names, each) for each in starts]
    rejects = [_reject(names, heard, error, now) for error in errors]
    return _answer(*commands, *rejects)


def _start(heard: Heard, topic_id: str, listener: JobTriggers, met: Iterable[int], now: Instant) -> Command:
    """The value goes along for a window, too: no use is made of it there, but the job may have none any more when its
    owner reads this."""
    record = heard.record
    place = f"{record.partition}/{record.offset}"
    conditions = [listener.on.conditions[place] for place in met]
    asked = {header for each in conditions if isinstance(each, RecordComes) for header in each.headers}
    return Command(
        CommandKind.TRIGGER,
        listener.job_id,
        f"record/{topic_id}/{place}",
        ACTOR,
        now,
        payload=record.value if heard.value_bytes <= PAYLOAD_MAX else None,
        triggered_by=f"{record.topic}/{place}",
        headers=tuple(sorted(asked)),
        gathers=listener.on.within_us > 0,
    )


def _too_large(heard: Heard) -> RequestError:
    return RequestError(
        f"the value has {heard.value_bytes} bytes, and it is the payload of the runs that it starts",
        pointer="/payload",
        hint=f"At most {PAYLOAD_MAX}: write a reference instead",
    )


def _too_many(left_out: Sequence[JobTriggers]) -> RequestError:
    named = ", ".join(each.job_id for each in left_out[:5])
    return RequestError(
        f"{len(left_out)} jobs that wait for this record are not started by it, such as {named}",
        pointer="/on",
        hint=f"One record starts the {STARTED_MAX} jobs that have waited longest: let the others wait for these",
    )


def _answer(*messages: Outgoing) -> Answer:
    return Answer(messages, sum(len(message.value or b"") for message in messages))


def _reject(names: Names, heard: Heard, error: RequestError, now: Instant) -> Outgoing:
    record = heard.record
    source = SourceRecord(record.topic, record.partition, record.offset, record.key, record.value, record.headers)
    return reject_message(
        names, Reject("intake", error.message, error.pointer, error.hint, now, source), value_bytes=heard.value_bytes
    )
