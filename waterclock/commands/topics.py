"""``waterclock topics``: what the log says, decoded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any

import typer

from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import NotFound, RequestError, UndecodableRecord
from waterclock.model.time_text import format_rfc3339
from waterclock.settings import Settings
from waterclock.wire.codec import decode_any
from waterclock.wire.json_text import read_json
from waterclock.wire.names import Names, topic_specs

from .connect import here, names_of, open_log
from .output import payload_text, say, show_line
from .visible import visible

app = typer.Typer(add_completion=False, help="Look into topics.", no_args_is_help=True)

_BATCH = 500
_WAIT_S = 0.2


class TailFormat(StrEnum):
    """The forms of ``topics tail -o``."""

    TEXT = "text"
    JSONL = "jsonl"


@app.callback()
def topics() -> None:
    """Look into topics."""


@app.command()
def tail(
    topic: Annotated[
        list[str],
        typer.Argument(help="Such as run-events, runs.high, leases (the prefix may be left out), or a whole name"),
    ],
    newest: Annotated[int, typer.Option("-n", help="Begin with so many of each partition's newest")] = 10,
    from_start: Annotated[bool, typer.Option("--from-start", help="Begin with the oldest that is kept")] = False,
    count: Annotated[int, typer.Option(help="End after so many records; 0: never")] = 0,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more at the end")] = True,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Open and aborted rounds too")] = False,
    output: Annotated[TailFormat, typer.Option("-o", "--output")] = TailFormat.TEXT,
) -> None:
    """Print records as they come, decoded, committed ones only. Ctrl-C ends."""
    settings = here()
    isolation = Isolation.UNCOMMITTED if uncommitted else Isolation.COMMITTED
    with open_log(settings) as log:
        places = _places(log, settings, topic)
        starts = {place: _start(log, place, newest, from_start=from_start) for place in places}
        ends = None if follow else {place: log.high_watermark(place) for place in places}
        for number, record in enumerate(_read(log, isolation, starts, ends), 1):
            if output is TailFormat.JSONL:
                show_line(_document(record))
            else:
                typer.echo(visible(_text(record)))
            if number == count:
                return


def _places(log: Log, settings: Settings, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition of the topics that were named, short or in full."""
    names = names_of(settings)
    known = {spec.name for spec in topic_specs(names, settings.partitions)}
    try:
        full = [_full_name(log, names, known, topic) for topic in topics]
        return [TopicPartition(topic, number) for topic in full for number in range(log.partitions(topic))]
    except NotFound as missing:
        ours = ", ".join(sorted(name.removeprefix(f"{names.prefix}.") for name in known))
        raise NotFound(
            f"There is no topic {' or '.join(topics)}", hint=f"There are: {ours}; others by their whole name"
        ) from missing


def _full_name(log: Log, names: Names, known: set[str], topic: str) -> str:
    """Under our prefix where there is such a topic, else as it stands: a tenant's may lie outside. Raises NotFound."""
    short = f"{names.prefix}.{topic}"
    if short in known or not topic.startswith(f"{names.prefix}."):
        try:
            log.partitions(short)
        except NotFound:
            log.partitions(topic)
        else:
            return short
    return topic


def _start(log: Log, place: TopicPartition, newest: int, *, from_start: bool) -> int:
    """Markers take offsets too, so there may be fewer than ``newest`` records behind it."""
    low = log.low_watermark(place)
    return low if from_start else max(low, log.high_watermark(place) - newest)


def _read(
    log: Log, isolation: Isolation, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int] | None
) -> Iterator[Record]:
    """Records in the order in which they come; with ``ends``, up to there (10 s without any are enough)."""
    reader = log.reader(isolation, headers=True)
    try:
        reader.assign(starts)
        idle_until = time.monotonic() + 10
        while ends is None or any(reader.position(place) < end for place, end in ends.items()):
            records = reader.poll(_BATCH, _WAIT_S)
            if records:
                idle_until = time.monotonic() + 10
            elif ends is not None and time.monotonic() > idle_until:
                say("stopped before the end: an open transaction may hold it back (--uncommitted shows it)")
                return
            yield from sorted(records, key=lambda record: record.timestamp_us)
    finally:
        reader.close()


def _decoded(record: Record) -> tuple[str, dict[str, Any]]:
    """The kind of a record and its fields; of one that is not ours, why not."""
    if record.value is None:
        return "tombstone", {}
    try:
        value = decode_any(record.value)
    except UndecodableRecord as error:
        document = _json(record.value)
        if document is not None:
            return "json", document
        return "undecodable", {"why": error.message, "bytes": len(record.value)}
    return type(value).__name__, _fields(value)


def _json(value: bytes) -> dict[str, Any] | None:
    """What others send to job-events as JSON; None where it is none."""
    try:
        document = read_json(value) if value.lstrip()[:1] == b"{" else None
    except RequestError:
        return None
    return document


def _fields(value: Any) -> Any:
    """Plain JSON of our values: NamedTuples become objects, enums words, bytes text."""
    if hasattr(value, "_asdict"):
        return {name: _field(name, part) for name, part in value._asdict().items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _field(name, getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return payload_text(value)
    if isinstance(value, list | tuple):
        return [_fields(part) for part in value]
    return value


def _field(name: str, value: Any) -> Any:
    """Instants, known by their names, as RFC 3339."""
    is_instant = (name == "at" or name.endswith("_at")) and isinstance(value, int)
    return (format_rfc3339(value) if value else None) if is_instant else _fields(value)


def _document(record: Record) -> dict[str, Any]:
    kind, fields = _decoded(record)
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": format_rfc3339(record.timestamp_us),
        "key": payload_text(record.key),
        "headers": {name: payload_text(value) for name, value in record.headers},
        "kind": kind,
        "value": fields,
    }


def _text(record: Record) -> str:
    """One line: when, where, whose, what."""
    kind, fields = _decoded(record)
    detail = fields.get("detail")  # of a stranger's record it may be anything
    if isinstance(detail, dict):
        fields = {name: part for name, part in fields.items() if name != "detail"} | detail
    shown = {name: part for name, part in fields.items() if part not in (None, "", 0, [], {}, "NONE")}
    what = shown.pop("kind", kind)
    about = shown.pop("run_id", None) or shown.pop("job_id", None) or shown.pop("worker", None)
    shown.pop("job_id", None)
    rest = " ".join(f"{name}={part}" for name, part in shown.items())
    place = f"{record.topic}[{record.partition}]@{record.offset}"
    return f"{format_rfc3339(record.timestamp_us):<27} {place}  {what}  {about or payload_text(record.key)}  {rest}"
