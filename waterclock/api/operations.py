"""Routes of operations: what became of a command that outlasted its request.

The answer is looked for where it is cheapest: among those that this process saw, else in run-events itself, from the
moment the command was sent (so it is found after a restart or a rest, and by others). Each search is bounded, and
the next one goes on where it ended; until then the operation is pending, and the job tells the rest.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Answered
from waterclock.model.ids import partition_of
from waterclock.store.request_port import Operation
from waterclock.wire.codec import decode_event

from . import shapes, views
from .access import Held, Reader
from .problems import Problem
from .services import APART_US, Services
from .shapes import Answers

_SEARCHED_MAX = 50_000
_SEARCHES_MAX = 1_000
_TURN_S = 5.0
"""A search waits so long for those of others: clients wait for an answer for 10 s."""

routes = APIRouter(tags=["operations"])


@routes.get(
    "/operations/{operation_id}",
    summary="What became of a command",
    responses=shapes.answers(Answers.READ_ONE, {200: shapes.Operation}),
)
async def show_operation(operation_id: str, services: Held, caller: Reader) -> Response:
    """Kept for two days."""
    known = await services.call(services.store.operation, caller.tenant, operation_id)
    if known is None:
        raise Problem("not-found", f"There is no operation {operation_id[:80]!r}", hint="They are kept for two days")
    answer = services.answers.recent(known.job_id, operation_id)
    if answer is None:
        await services.follow()  # who asks will ask again: then what comes is seen
    if answer is None and not services.would_have_seen(known.job_id, operation_id, known.at):
        answer, searched_to = await services.look_back(
            _TURN_S, _search, services, known, services.searched.get(operation_id, 0)
        )
        _note(services, operation_id, searched_to if answer is None else None)
        if answer is not None:
            services.answers.keep(known.job_id, answer, services.clock.now())
    return views.reply(200, views.operation_view(known, answer))


def _note(services: Services, operation_id: str, searched_to: int | None) -> None:
    """How far the log has been searched, of those that were asked for last; None: it was found."""
    services.searched.pop(operation_id, None)
    if searched_to is not None:
        services.searched[operation_id] = searched_to
    while len(services.searched) > _SEARCHES_MAX:
        services.searched.popitem(last=False)


def _search(services: Services, operation: Operation, searched_to: int) -> tuple[Answered | None, int]:
    """The answer in the log, or else up to which offset it is not there. Raises BackendDown.

    The command was sent by an API's clock, and its answer bears a dispatcher's stamp: so the search begins ``APART_US``
    earlier. The price is a minute more of one partition, once for each search and within the bound of each part of it.
    """
    log, topic = services.log, services.names.run_events
    place = TopicPartition(topic, partition_of(operation.job_id, log.partitions(topic)))
    start = max(searched_to, log.offset_at(place, operation.at - APART_US), log.low_watermark(place))
    end = min(log.high_watermark(place), start + _SEARCHED_MAX)
    for record in read_range(log, Isolation.COMMITTED, place, start, end, idle_polls=10):
        if record.key != operation.job_id.encode():
            continue
        try:
            detail = decode_event(record.value or b"").detail
        except UndecodableRecord:
            continue
        if isinstance(detail, Answered) and detail.command_id == operation.operation_id:
            return detail, record.offset
    return None, max(start, end)
