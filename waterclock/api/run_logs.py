"""``GET /runs/{run_id}/logs``: what a run's attempts printed, to be read in pages and followed by asking again.

What must hold: a caller sees its own tenant's lines alone; whoever hands ``after`` back misses nothing that was kept
and sees only the line of stream ``note`` again. How it fails: lines come some tenths of a second late, later where the
recorder lags; what was cut or dropped, a note says.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from waterclock.model.events import FINAL
from waterclock.store.line_pages import KEPT_MAX, LinePlace, lines_of
from waterclock.store.port import LogRow

from . import shapes, views
from .access import Held, Reader
from .problems import Problem
from .runs import no_such_run, own_run, run_row
from .shapes import Answers

PAGE_MAX = 5_000
_PLACE = re.compile(r"(\d{1,9})\.(\d{1,18})\.(\d{1,9})(n?)\Z")

routes = APIRouter(tags=["runs"])


class PrintedLine(BaseModel):
    """One line that an attempt printed."""

    attempt: int
    fencing_token: int = Field(description="Of the claim that printed it; seldom, an attempt was claimed twice")
    seq: int = Field(description="Its number within the claim; gaps are lines that were dropped")
    at: shapes.Instant | None
    stream: str = Field(description="`stdout`, `stderr`, `log`, or `note`: about lines that are not kept")
    text: str = Field(description="May hold control characters: keep them away from terminals")


class PrintedLines(BaseModel):
    """One page of lines, in the order in which they were printed, attempt by attempt."""

    run_id: str
    lines: list[PrintedLine]
    after: str | None = Field(description="Hand it back to go on")
    more: bool = Field(description="There are more lines already")
    final: bool = Field(description="The run has ended: ask for two seconds more, then all lines have come")


@routes.get(
    "/runs/{run_id:path}/logs",
    summary="What a run printed",
    responses=shapes.answers(Answers.READ_ONE, {200: PrintedLines}),
)
async def run_logs(
    run_id: str,
    services: Held,
    caller: Reader,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Only this attempt's")] = None,
    after: Annotated[str | None, Query(max_length=200, description="`after` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 1_000,
) -> Response:
    """Lines are kept for 7 days, of each attempt the first 1,000 and 64 KiB."""
    place = own_run(run_id, caller.tenant, nodes=True)
    row = await run_row(services, place)
    if row is None:
        raise no_such_run(run_id)
    first, last = (1, max(1, row.attempt)) if attempt is None else (attempt, attempt)
    begins = () if after is None else _read_places(after)
    page = await services.call(lines_of, services.store, str(place), first, last, limit, begins)
    document = {
        "run_id": run_id,
        "lines": [line_view(line) for line in page.lines],
        "after": ",".join(map(_text_of, page.after)) or None,
        "more": page.more,
        "final": row.status in FINAL,
    }
    return views.reply(200, document)


def line_view(line: LogRow) -> dict[str, Any]:
    """One line; the same on the command line."""
    return {
        "attempt": line.attempt,
        "fencing_token": line.fence,
        "seq": line.seq,
        "at": views.instant(line.at),
        "stream": line.stream.value.lower(),
        "text": line.text,
    }


def _text_of(place: LinePlace) -> str:
    return f"{place.attempt}.{place.fence}.{place.seq}{'n' if place.noted else ''}"


def _read_places(text: str) -> tuple[LinePlace, ...]:
    matches = [_PLACE.match(part) for part in text.split(",", KEPT_MAX)]
    found = [LinePlace(int(match[1]), int(match[2]), int(match[3]), noted=bool(match[4])) for match in matches if match]
    if len(found) != len(matches) or len(found) > KEPT_MAX:
        raise Problem("bad-request", "This `after` is none of ours", pointer="/after", hint="Hand it back as it came")
    return tuple(found)
