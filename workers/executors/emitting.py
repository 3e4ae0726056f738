"""What user code sends to Kafka through us: checked when it is emitted, sent only with the outcome that says SUCCEEDED.

What must hold:

* a record is checked at once, in the handler's own thread, so that a mistake is the handler's to see and can take
  nobody else's round down (design §5, rule 7): its topic exists, is none of ours, and the record fits;
* no record goes to a topic that the intake reads: it would make jobs of the tenant whose topic that is, by our rights;
* its header ``ce_id`` is the effect id ``<run id>/out/<i>``: the same in every attempt of a run whose code emits in the
  same order, so that whoever drops repeated ids sees each effect once;
* once the handler has returned, nothing can be added: what it had emitted by then rides with its outcome.

How it fails: EmitRefused, in the handler. What a check cannot know (a topic deleted a moment later, a write that is not
allowed) shows in the round; ``outcomes.py`` then finds the run that is to blame.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping

from waterclock.app import Headers as GivenHeaders
from waterclock.log.port import Headers, Outgoing
from waterclock.model.errors import EmitRefused
from waterclock.model.events import WorkRecord
from waterclock.model.ids import effect_id
from waterclock.model.plain_json import NotJson, to_json
from waterclock.wire import headers as story

RECORD_MAX_BYTES = 960 * 1024
"""Key, value and headers together, ours included: below the 1,000,000 bytes that the client takes."""

RUN_RECORDS_MAX = 1_000
RUN_BYTES_MAX = 4 * 1024 * 1024
"""What one attempt may emit in all."""

_HEADERS_MAX = 64
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_OURS = frozenset({"ce_id", "ce_source", "ce_specversion"})
"""Headers that identify the effect; ``ce_type``, ``ce_subject`` and ``content-type`` are the handler's to choose."""


_NONE: list[Outgoing] = []
_BEGINNING = threading.RLock()
"""Of all attempts, around the giving of their own locks; nobody waits for anything inside. One that a thread may take
twice, as theirs are: the collector's finalizers are user code, and may come at any allocation.
"""


class Outlet:
    """The rules for what leaves this worker beside its own records; shared by all its executors and threads.

    ``prefix`` begins the topics that are ours. ``exists`` tells whether a topic does; it may raise BackendDown.
    ``ingress``: topics of other names that the intake reads.
    """

    def __init__(self, prefix: str, exists: Callable[[str], bool], ingress: Collection[str] = ()) -> None:
        self._prefix = prefix
        self._exists = exists
        self._ingress = frozenset(ingress)

    def record(
        self, work: WorkRecord, number: int, topic: str, key: str | bytes, value: object, headers: GivenHeaders = ()
    ) -> Outgoing:
        """The ``number``-th record of a run, ready for its round. Raises EmitRefused, BackendDown.

        ``value``: bytes or text as they are, None for a tombstone, anything else as JSON.
        """
        self._check_topic(topic)
        name = effect_id(work.run_id, number)
        message = Outgoing(topic, _key(key), _value(value), self._headers(work, name, headers))
        size = size_of(message)
        if size > RECORD_MAX_BYTES:
            raise EmitRefused(f"A record of {size} bytes for {topic} is over the limit of {RECORD_MAX_BYTES}")
        return message

    def _check_topic(self, topic: object) -> None:
        if not isinstance(topic, str) or not _TOPIC.match(topic):
            raise EmitRefused(f"{str(topic)[:100]!r} is no name of a topic")
        if topic.startswith((f"{self._prefix}.", "__")) or topic in self._ingress:
            raise EmitRefused(f"{topic} belongs to the system: emit to a topic of your own (jobs are made by a Client)")
        if not self._exists(topic):
            raise EmitRefused(f"There is no topic {topic}: create it first, nothing here creates topics in passing")

    def _headers(self, work: WorkRecord, name: str, given: GivenHeaders) -> Headers:
        pairs = [_pair(each) for each in (given.items() if isinstance(given, Mapping) else given)]
        if len(pairs) > _HEADERS_MAX:
            raise EmitRefused(f"{len(pairs)} headers are more than the {_HEADERS_MAX} that a record may have")
        named = {header for header, _ in pairs}
        if taken := sorted(named & _OURS):
            raise EmitRefused(f"The header {taken[0]} names the effect and is set by us: choose another")
        defaults = (("ce_type", b"io.waterclock.run.output"), ("ce_subject", work.run_id.encode()))
        return (
            ("ce_id", name.encode()),
            story.source(self._prefix, "jobs", work.job_id),
            story.SPEC,
            *(pair for pair in defaults if pair[0] not in named),
            *pairs,
        )


class Emissions:
    """The records of one attempt, in the order in which its code emitted them. Any thread may call it.

    ``outlet`` None: this worker emits nothing, and says so. Most attempts emit nothing, and there may be a hundred
    thousand in flight: what only records need is made with the first one.
    """

    __slots__ = ("_bytes", "_closed", "_is_busy", "_lock", "_outlet", "_records", "_work")

    def __init__(self, outlet: Outlet | None, work: WorkRecord) -> None:
        self._outlet = outlet
        self._work = work
        self._lock: threading.RLock | None = None
        self._records: list[Outgoing] = _NONE
        self._bytes = 0
        self._closed = False
        self._is_busy = False

    def emit(self, topic: str, key: str | bytes, value: object, headers: GivenHeaders = ()) -> str:
        """Add a record; answers its effect id. Raises EmitRefused, BackendDown."""
        if self._outlet is None:
            raise EmitRefused("This worker was built without a way to emit records")
        with self._begun():
            if self._is_busy:
                raise EmitRefused("emit was called while it was reading its own arguments: emit one record at a time")
            self._is_busy = True
            try:
                return self._add(self._outlet, topic, key, value, headers)
            finally:
                self._is_busy = False

    def close(self) -> tuple[Outgoing, ...]:
        """The code has ended: what it emitted, and from now on no more."""
        with _BEGINNING:
            if self._lock is None:
                self._closed = True
                return ()
        with self._lock:
            self._closed = True
            return tuple(self._records)

    def _add(self, outlet: Outlet, topic: str, key: str | bytes, value: object, headers: GivenHeaders) -> str:
        if self._closed:
            raise EmitRefused("The handler has returned: its records are on their way, and nothing can be added")
        number = len(self._records)
        if number >= RUN_RECORDS_MAX:
            raise EmitRefused(f"A run may emit {RUN_RECORDS_MAX} records; for more let it make further runs")
        message = outlet.record(self._work, number, topic, key, value, headers)
        size = size_of(message)
        if self._bytes + size > RUN_BYTES_MAX:
            raise EmitRefused(f"A run may emit {RUN_BYTES_MAX} bytes in all; for more let it make further runs")
        self._records.append(message)
        self._bytes += size
        return effect_id(self._work.run_id, number)

    def _begun(self) -> threading.RLock:
        """The lock around the records, of which there may be some from now on."""
        lock = self._lock
        if lock is not None:
            return lock
        records: list[Outgoing] = []
        lock = threading.RLock()  # both first: nothing is made between look and store
        with _BEGINNING:
            if self._lock is None:
                self._records = records
                self._lock = lock
            return self._lock


def size_of(message: Outgoing) -> int:
    """Bytes of key, value and headers."""
    size = len(message.key) + len(message.value or b"")
    return size + sum(len(name.encode()) + len(text) for name, text in message.headers)


def _key(key: object) -> bytes:
    raw = _utf8(key, "key") if isinstance(key, str) else key
    if not isinstance(raw, bytes) or not raw:
        raise EmitRefused(f"{str(key)[:40]!r} is no key: text or bytes, and not empty, for it decides order and place")
    return raw


def _value(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value, "value")
    try:
        return to_json(value)
    except NotJson as error:
        raise EmitRefused(f"The value is neither bytes, text nor JSON: {str(error)[:200]}") from None


def _pair(given: object) -> tuple[str, bytes]:
    if isinstance(given, tuple) and len(given) == 2:
        name, text = given
        if isinstance(name, str) and name and isinstance(text, str | bytes):
            return _name(name), _utf8(text, f"header {name[:60]}") if isinstance(text, str) else text
    raise EmitRefused(f"{str(given)[:60]!r} is no header: give pairs of a name and text or bytes")


def _name(given: str) -> str:
    """A header's name as it travels. The client takes the process down over one that is no UTF-8, and cuts at a NUL."""
    name = str.__str__(given)
    _utf8(name, "name of a header")
    if "\0" in name:
        raise EmitRefused(f"The header {name[:60]!a} has a NUL in its name, where readers would end it: leave it out")
    return name


def _utf8(text: str, what: str) -> bytes:
    try:
        return str.encode(text)
    except UnicodeEncodeError as error:
        half = text[error.start : error.start + 1]
        raise EmitRefused(
            f"The {what} is no UTF-8: {half!a} at {error.start} is half of a character. Leave it out, or replace it"
        ) from None
