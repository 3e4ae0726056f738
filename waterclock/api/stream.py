"""``GET /stream``: run events as they happen, as server-sent events.

What must hold: a client sees its tenant's events alone, in the order of each partition, and can go on where it stopped:
every event's id lists the last offset seen of each partition. A client that does not keep up gets a last event
``dropped`` and is let go; at shutdown every stream gets ``closing``. How it fails: where the past to be caught up with
is longer than ``CATCH_UP_MAX`` records, an event ``gap`` says that some are missing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown

from . import shapes, views
from .access import Held, Reader, own_job_id
from .keyring import Caller
from .problems import Problem
from .services import Services
from .shapes import Answers
from .tail import Seen
from .watchers import Watcher

CATCH_UP_MAX = 20_000
"""Records of all partitions together that are read again for one client."""

_KEEP_ALIVE_S = 15.0
_RETRY_MS = 2_000
_MARK = re.compile(r"(\d{1,5}):(\d{1,18})\Z")
_MARKS_MAX = 256

routes = APIRouter(tags=["stream"])


@routes.get(
    "/stream",
    summary="Run events as they happen (server-sent events)",
    response_class=StreamingResponse,
    responses=shapes.answers(Answers.READ, {200: shapes.STREAM, 503: shapes.Problem}),
)
async def stream(
    services: Held,
    caller: Reader,
    job: Annotated[str | None, Query(max_length=200, description="Only this job's")] = None,
    last_event_id: Annotated[str | None, Header(description="Go on after this event")] = None,
) -> StreamingResponse:
    """Each event's data is JSON; its id is `partition:offset,...`, which `Last-Event-ID` hands back."""
    marks = _read_marks(last_event_id) if last_event_id else {}
    await services.follow()
    watcher = services.watchers.add(caller.tenant, own_job_id(caller, job) if job is not None else "", caller.key)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_told(services, caller, watcher, marks), media_type="text/event-stream", headers=headers)


async def _told(services: Services, caller: Caller, watcher: Watcher, marks: dict[int, int]) -> AsyncIterator[bytes]:
    """The text of the stream: what was missed, then what comes."""
    began = {partition: position - 1 for partition, position in watcher.positions.items()}
    # A mark beyond the end comes from topics that were made again: nothing would ever lie behind it.
    strange = any(last > began.get(partition, last) for partition, last in marks.items())
    if marks:  # an id leaves out partitions that were empty then: all that they hold by now is missed
        marks = dict.fromkeys(began, -1) | marks
    marks = {partition: min(last, began.get(partition, last)) for partition, last in marks.items()}
    cursor = began | marks
    checked_s = services.clock.monotonic_s()
    try:
        yield f"retry: {_RETRY_MS}\n: waterclock run events\n\n".encode()
        if marks:
            missed, is_whole = await services.look_back(None, _missed, services, watcher, marks)
            if strange or not is_whole:
                yield _control("gap", "some events are missing here: too many have passed", cursor)
            for seen in missed:
                yield _event(seen, cursor)
        while True:  # ends with the client, with the process, or with a client that is too slow
            batch = await watcher.take(_KEEP_ALIVE_S)
            if services.clock.monotonic_s() - checked_s >= _KEEP_ALIVE_S:
                checked_s = services.clock.monotonic_s()
                if not await services.keyring.still_opens(caller):
                    yield _control("closing", "the key is no longer good", cursor)
                    return
            if not batch and not watcher.lost and not watcher.closed:
                yield b": still here\n\n"
            if batch:
                yield b"".join(_event(seen, cursor) for seen in batch if seen.offset > cursor.get(seen.partition, -1))
            if watcher.lost:
                yield _control("dropped", "this client did not keep up: go on with Last-Event-ID", cursor)
                return
            if watcher.closed:
                yield _control("closing", "the server stops: come back in a moment", cursor)
                return
    finally:
        services.watchers.remove(watcher)


def _missed(services: Services, watcher: Watcher, marks: dict[int, int]) -> tuple[list[Seen], bool]:
    """The events after ``marks`` up to where the watcher began, and whether these are all. Runs off the loop."""
    log, topic = services.log, services.names.run_events
    found: list[Seen] = []
    left, is_whole = CATCH_UP_MAX, True
    for partition, last in sorted(marks.items()):
        end = watcher.positions.get(partition)
        if end is None:
            continue  # a partition that never was
        place = TopicPartition(topic, partition)
        try:
            start = max(last + 1, log.low_watermark(place), end - left)
            is_whole &= start <= last + 1
            for record in read_range(log, Isolation.COMMITTED, place, start, end, idle_polls=10):
                left -= 1
                seen = Seen(partition, record.offset, record.timestamp_us, None, record.key or b"", record.value or b"")
                if watcher.wants(seen):
                    found.append(seen)
        except BackendDown:
            is_whole = False
    return found, is_whole


def _event(seen: Seen, cursor: dict[int, int]) -> bytes:
    cursor[seen.partition] = seen.offset
    return f"id: {_marks_text(cursor)}\ndata: ".encode() + orjson.dumps(views.event_view(seen)) + b"\n\n"


def _control(name: str, message: str, cursor: dict[int, int]) -> bytes:
    data = orjson.dumps({"message": message}).decode()
    return f"event: {name}\nid: {_marks_text(cursor)}\ndata: {data}\n\n".encode()


def _marks_text(cursor: dict[int, int]) -> str:
    """``partition:offset`` of the last event seen of each partition."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(cursor.items()) if offset >= 0)


def _read_marks(text: str) -> dict[int, int]:
    """The offsets in a Last-Event-ID. Raises Problem (400)."""
    matches = [_MARK.match(part.strip()) for part in text.split(",", _MARKS_MAX)]
    found = {int(match[1]): int(match[2]) for match in matches if match is not None}
    if len(found) != len(matches):
        raise Problem("bad-request", "This Last-Event-ID is none of ours", hint="Hand back an event's id as it came")
    return found
