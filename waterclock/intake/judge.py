"""One record of job-events, judged: a command for its job's shard, or a reject that says why not and what to do.

What must hold: every record has exactly one of the two, whatever its bytes; a reject's texts are short and printable
whatever they quote. How it fails: only where a backend is needed and away (BackendDown, LostResource). Any other error
is a bug of ours, and the record that brought it out is rejected like a bad one: it must not stop those behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Outgoing, Record
from waterclock.model.errors import BackendDown, LostResource, RequestError, UndecodableRecord
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.ids import Instant
from waterclock.model.job import Command
from waterclock.model.order_words import KEY_MAX
from waterclock.model.sources import Sources, check_sources
from waterclock.wire.messages import command_message, reject_message
from waterclock.wire.names import Names
from waterclock.wire.pools import Pools

from .order import Envelope, command_of
from .parse import Writers, header, read_event

_TEXT_MAX = 500
_CHECK = "`waterclock schema check FILE` tells beforehand"

_log = structlog.get_logger()


class Judge:
    """``tenants``: whose jobs the records of a topic are about; ``sources``: which topics may start whose jobs.

    Without ``pools`` no pool is looked for.
    """

    def __init__(
        self,
        names: Names,
        clock: Clock,
        writers: Writers,
        pools: Pools | None,
        tenants: Mapping[str, str],
        sources: Sources = MappingProxyType({}),
    ) -> None:
        self._sources = sources
        self._names = names
        self._clock = clock
        self._writers = writers
        self._pools = pools
        self._tenants = tenants

    def judge(self, record: Record, refused: Counter[str]) -> Outgoing:
        """The one message that this record becomes; refusals are counted. Raises BackendDown, LostResource."""
        try:
            return command_message(self._names, self.command(record))
        except RequestError as error:
            refused["undecodable" if isinstance(error, UndecodableRecord) else "refused"] += 1
            return _reject(self._names, record, error, self._clock.now())
        except (BackendDown, LostResource):
            raise
        except Exception as bug:  # noqa: BLE001 - a record must not stop the partition, whatever it brings out of us
            refused["unexpected"] += 1
            _log.exception("a record could not be judged", topic=record.topic, partition=record.partition,
                           offset=record.offset)  # fmt: skip
            refusal = RequestError(f"it could not be judged: {type(bug).__name__}", hint="This is a bug: report it")
            return _reject(self._names, record, refusal, self._clock.now())

    def command(self, record: Record) -> Command:
        """The command that a record asks for. Raises RequestError, BackendDown."""
        sent = read_event(record.value, record.headers, self._writers)
        command = command_of(sent, self._envelope(record), self._pools)
        if command.spec is not None:
            check_sources(self._sources, command.job_id, command.spec.on)
        return command

    def _envelope(self, record: Record) -> Envelope:
        short = record.topic.removeprefix(f"{self._names.prefix}.")
        return Envelope(
            tenant=self._tenants[record.topic],
            coordinates=f"{short}/{record.partition}/{record.offset}",
            sent_at=record.timestamp_us,
            event_id=_header_text(record, "ce_id"),
            key=_header_text(record, "idempotency-key"),
        )


def bare_reject(names: Names, record: Record, error: RequestError, at: Instant) -> Outgoing:
    """A reject that leaves the record where it is, because no broker took one that carries it."""
    return _reject(names, record._replace(key=None, value=None, headers=()), error, at)


def _reject(names: Names, record: Record, error: RequestError, at: Instant) -> Outgoing:
    topic, partition, offset, _, key, value, headers = record
    hint = f"{error.hint}. {_CHECK}" if error.hint else _CHECK
    source = SourceRecord(topic, partition, offset, key, value, headers)
    return reject_message(
        names, Reject("intake", _plain(error.message), _plain(error.pointer), _plain(hint), at, source)
    )


def _header_text(record: Record, name: str) -> str:
    """A header that names something of ours: UTF-8, printable, bounded. Raises RequestError."""
    value = header(record.headers, name)
    text = value[: KEY_MAX * 4 + 1].decode(errors="replace")
    if len(text) > KEY_MAX or not text.isprintable() or "\ufffd" in text:
        raise RequestError(f"the header {name} is no text of at most {KEY_MAX} printable characters", hint="Shorten it")
    return text


def _plain(text: str) -> str:
    """Text that any record can carry, bounded: what it quotes came from strangers."""
    return text[:_TEXT_MAX].encode(errors="replace").decode()
