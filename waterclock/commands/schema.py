"""``waterclock schema``: the contract of job-events, tried out and written down.

``check`` says what the intake would say, with the intake's own code; without a broker, so a pool is not looked for.
With ``--reject`` it reads a refused record back, whole, and tries it again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from waterclock.clock import SystemClock
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.document import spec_to_document
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import Reject
from waterclock.model.job import Command
from waterclock.model.time_text import format_rfc3339
from waterclock.settings import Settings, load_settings
from waterclock.wire import schemata
from waterclock.wire.codec import decode_reject

from .connect import here, names_of, open_log
from .failing import CommandFailed
from .output import OutputOption, payload_text, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="The contract of job-events.", no_args_is_help=True)

_READ_MAX = 2 * 1024 * 1024
_EXPORTED_TO = Path("avro-schemas")
"""Not ``schemas``: in a checkout that is a folder of sources."""


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The bytes of a record's value; - is stdin")
    ] = None,
    reject: Annotated[
        str | None,
        typer.Option("--reject", metavar="PARTITION:OFFSET", help="A refused record, read back from rejects"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Where it would be sent (job-events); the prefix may be left out")
    ] = None,
    header: Annotated[list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE")] = None,
    output: OutputOption = None,
) -> None:
    """Say what the intake would make of a record, JSON or Avro: exit code 0 if it takes it, 1 if not."""
    if (file is None) == (reject is None):
        raise RequestError("Give either a FILE or --reject PARTITION:OFFSET", hint="`waterclock schema check --help`")
    if reject is not None:
        settings = here()
        record = _refused_record(settings, reject)
    else:
        settings = load_settings()
        record = _record_of(_full_name(settings, topic), _read(file), header or [])
    command = _judged(settings, record)
    show_one(_card(command), output)
    say("the intake takes it" + ("" if command.spec is None or command.spec.pool == "default" else _NO_POOL_CHECK))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made where it does not exist")] = _EXPORTED_TO,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that say something else")] = False,
    output: OutputOption = None,
) -> None:
    """Write the published Avro schemas as .avsc files: for code generators and schema registries."""
    files = {folder / f"{kind}.avsc": schemata.published_text(kind) for kind in schemata.KINDS}
    try:
        others = [path for path, text in files.items() if path.exists() and path.read_bytes() != text]
        if others and not force:
            raise RequestError(f"{others[0]} exists and says something else", hint="--force overwrites it")
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_bytes(text)
    except OSError as error:
        place = error.filename or folder
        raise RequestError(f"{place} cannot be written: {error.strerror}", hint="Give another DIR") from None
    rows = [{"file": str(folder / f"{kind}.avsc"), "fingerprint": schemata.current(kind).fingerprint.hex()}
            for kind in schemata.KINDS]  # fmt: skip
    show_rows(rows, ("file", "fingerprint"), output)


_NO_POOL_CHECK = ", if its pool has topics: that is not looked for here"


def _judged(settings: Settings, record: Record) -> Command:
    """The command that the intake would write. Raises CommandFailed with what it would say instead."""
    from waterclock.intake.judge import Judge
    from waterclock.intake.writers import writers_of

    names, clock = names_of(settings), SystemClock()
    tenants = settings.ingress(names.job_events)
    if record.topic not in tenants:
        raise NotFound(f"The intake does not read {record.topic}", hint=f"It reads {', '.join(sorted(tenants))}")
    try:
        return Judge(names, clock, writers_of(settings, clock), None, tenants).command(record)
    except RequestError as error:
        _fail(error)


def _fail(error: RequestError) -> NoReturn:
    where = f" (at {error.pointer})" if error.pointer else ""
    raise CommandFailed(f"The intake refuses it: {error.message}{where}", hint=error.hint or "Correct the record")


def _read(file: Path | None) -> bytes:
    """The file's bytes, or those of stdin. Raises RequestError."""
    assert file is not None
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(_READ_MAX)
        with file.open("rb") as opened:
            return opened.read(_READ_MAX)
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", hint="Give a readable file, or -") from None


def _full_name(settings: Settings, topic: str | None) -> str:
    """A topic that the intake reads is meant as it stands: a tenant's may lie outside the prefix."""
    names = names_of(settings)
    if topic is None:
        return names.job_events
    if topic in settings.ingress(names.job_events) or topic.startswith(f"{names.prefix}."):
        return topic
    return f"{names.prefix}.{topic}"


def _record_of(topic: str, value: bytes, headers: list[str]) -> Record:
    pairs = tuple((name, text.encode()) for name, _, text in (header.partition("=") for header in headers))
    return Record(topic, 0, 0, SystemClock().now(), None, value, pairs)


def _refused_record(settings: Settings, place: str) -> Record:
    """The record inside of a reject, as it was received; what the reject says of it is printed on the way."""
    partition, _, offset = place.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise RequestError(f"{place[:40]!r} is no place on rejects", hint="Write PARTITION:OFFSET, such as 2:4711")
    at = TopicPartition(names_of(settings).rejects, int(partition))
    with open_log(settings) as log:
        start = int(offset)
        inside = log.low_watermark(at) <= start < log.high_watermark(at)
        found = list(read_range(log, Isolation.COMMITTED, at, start, start + 1)) if inside else []
    if not found:
        raise NotFound(f"There is no reject at {place}", hint="`waterclock topics tail rejects --no-follow` shows them")
    reject = decode_reject(found[0].value or b"")
    _tell(reject)
    source = reject.source
    return Record(source.topic, source.partition, source.offset, reject.at, source.key, source.value, source.headers)


def _tell(reject: Reject) -> None:
    source = reject.source
    say(f"refused by {reject.role} at {format_rfc3339(reject.at)}: {reject.reason}")
    say(f"  at {reject.pointer or 'the whole record'}; {reject.hint}")
    say(f"  it was {source.topic}[{source.partition}]@{source.offset}, {len(source.value or b'')} bytes")
    for name, value in source.headers:
        say(f"  header {name}={payload_text(value)}")
    say(f"  {(payload_text(source.value) or 'no value')[:2_000]}")


def _card(command: Command) -> Mapping[str, Any]:
    card: dict[str, Any] = {"kind": command.kind.value, "job": command.job_id, "command_id": command.command_id}
    card |= {"idempotency_key": command.idempotency_key, "expected_revision": command.expected_revision or None}
    if command.payload is not None:
        card["payload"] = payload_text(command.payload)
    return card if command.spec is None else card | spec_to_document(command.spec)
