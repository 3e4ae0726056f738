"""Parts of the command line of ``waterclock job create``: its name, and what becomes of it by runs of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from waterclock.model.document import PAYLOAD_MAX
from waterclock.model.errors import RequestError
from waterclock.model.plain_json import NotJson, to_json
from waterclock.wire.json_text import read_json

NewJobArgument = Annotated[
    str | None, typer.Argument(metavar="JOB", help="A name, or <tenant>:<name>; without: one is made up")
]
OnJobOption = Annotated[
    list[str] | None,
    typer.Option("--on-job", metavar="NAME[:ENDED]", help="Start it when a run of that job ends: succeeded, failed or "
                 "any (succeeded); repeatable, beside a schedule or instead of one"),
]  # fmt: skip
OverlapOption = Annotated[
    str | None,
    typer.Option(
        help="While a run is open: allow, skip, buffer_one, buffer_all, cancel_other, terminate_other, "
        "sequential (allow)"
    ),
]
MaxConcurrentOption = Annotated[int | None, typer.Option(help="Runs that may be open")]
ConcurrencyKeyOption = Annotated[
    str | None, typer.Option(help="JSON pointer into the payload; runs with one value are limited together")
]
MaxPerKeyOption = Annotated[int | None, typer.Option(help="Runs with one key that may be open (1)")]
FailuresOption = Annotated[int | None, typer.Option(help="Pause it after so many FAILED runs in a row")]
MaxRunsOption = Annotated[int | None, typer.Option(help="Runs that its schedule makes; then it is ended")]
MaxHeldOption = Annotated[int | None, typer.Option(help="Runs that may wait (100)")]


def on_jobs(texts: list[str] | None) -> dict[str, Any] | None:
    """What a document has under ``on`` for these; None where none was given."""
    if not texts:
        return None
    split = [text.partition(":") for text in texts]
    return {"any": [{"job": job} | ({"ended": ended} if colon else {}) for job, colon, ended in split]}


DocumentOption = Annotated[
    Path | None, typer.Option("-f", "--file", help="The job as a JSON or YAML document; options win")
]


def named(**parts: object) -> dict[str, object]:
    """Those that were given."""
    return {name: part for name, part in parts.items() if part is not None}


def given(**parts: object) -> dict[str, object] | None:
    """The same; None where none was."""
    return named(**parts) or None


def json_or_text(text: str) -> Any:
    """What stands there as JSON; a text that is none is itself. Raises RequestError, as ``exact_json`` does."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return exact_json(text)


def exact_json(text: str) -> Any:
    """Raises RequestError for what is no JSON or would become something else: NaN, keys given twice, long integers."""
    try:
        return read_json(text.encode("utf-8", "surrogatepass"))
    except RequestError as error:
        raise RequestError(error.message, pointer="/payload", hint=error.hint) from None


def payload_bytes(text: str | None) -> bytes | None:
    """A payload that stands in for another one. Raises RequestError."""
    if text is None:
        return None
    try:
        found = to_json(json_or_text(text))
    except NotJson as error:
        raise RequestError(f"The payload is not JSON: {error}", pointer="/payload", hint="Give it in UTF-8") from None
    if len(found) > PAYLOAD_MAX:
        raise RequestError(f"The payload has {len(found)} bytes", pointer="/payload", hint=f"At most {PAYLOAD_MAX}")
    return found
