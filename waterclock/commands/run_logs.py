"""``waterclock run logs``: what a run's attempts printed, now or as it comes.

Following ends when the run has ended and no line has come for two seconds, or at the bound that ``--within`` sets.
Control characters never reach the terminal: they are shown as ``\\x1b``. Ends with 0; followed to its end, with 7 where
the run did not succeed, with 6 at the bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from waterclock.model.errors import NotFound
from waterclock.model.events import FINAL, RunStatus
from waterclock.model.ids import parse_run_id
from waterclock.model.run_log import NOTE_SEQ, LogStream
from waterclock.model.time_text import format_rfc3339
from waterclock.store.line_pages import SETTLED_S
from waterclock.store.port import LogRow, Reading, RunRow
from waterclock.store.run_rows import run_or_node

from .connect import here, open_store
from .failing import CommandFailed, ExitCode
from .output import Format, OutputOption, default_format, say, show_line
from .visible import visible

_LOOK_AGAIN_S = 0.3
_PAGE = 2_000
_WITHIN_S = 3_600.0
_WORDS = {LogStream.STDOUT: "out", LogStream.STDERR: "err", LogStream.LOG: "log", LogStream.NOTE: "note"}


def logs(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id")],
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt's lines (all)")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run has ended")] = False,
    within: Annotated[float, typer.Option(min=0.0, help="Follow for so many seconds at most")] = _WITHIN_S,
    output: OutputOption = None,
) -> None:
    """Print what a run printed: its handler's output and log lines, or its program's."""
    settings = here()
    form = output or default_format()
    place = parse_run_id(run)
    with open_store(settings) as store:
        row = run_or_node(store, place)
        if row is None:
            raise NotFound(f"History knows no run {run!r}", hint=f"waterclock run list {place.job_id}")
        tail = _Tail(store, run, row, attempt)
        count = 0
        for line in tail.follow(within) if follow else tail.new_lines():
            count += 1
            if form is Format.TABLE:
                for text in tail.told(line):
                    typer.echo(text)
            else:
                show_line(_document(line))
        if not count:
            say("it has printed nothing" if tail.row.status in FINAL else "it has printed nothing yet: -f waits for it")
        if follow and tail.row.status is not RunStatus.SUCCEEDED:
            raise CommandFailed(
                f"{run} ended {tail.row.status.name}: {tail.row.error or tail.row.reason}",
                hint=f"waterclock run show '{run}'",
                exit_code=ExitCode.RUN_FAILED,
            )


class _Tail:
    """Reads on where it stopped, in every attempt apart: the last lines of one may come after the first of the next."""

    def __init__(self, store: Reading, run: str, row: RunRow, attempt: int | None) -> None:
        self.row = row
        self._store = store
        self._run = run
        self._attempt = attempt
        self._seen: dict[int, tuple[int, int]] = {}
        self._notes: dict[tuple[int, int], str] = {}
        self._headed: tuple[int, int] | None = None

    def follow(self, within_s: float) -> Iterator[LogRow]:
        """Lines as they come, until the run has ended and they have come. Raises CommandFailed at the bound."""
        give_up_at_s = time.monotonic() + within_s
        quiet_since_s = time.monotonic()
        while True:
            place = parse_run_id(self._run)
            was_final = self.row.status in FINAL
            self.row = run_or_node(self._store, place) or self.row
            for line in self.new_lines():
                quiet_since_s = time.monotonic()
                yield line
            now_s = time.monotonic()
            if not was_final:
                quiet_since_s = now_s
            elif now_s - quiet_since_s >= SETTLED_S:
                return
            if now_s >= give_up_at_s:
                raise CommandFailed(
                    f"{self._run} has not ended within {within_s:g} s: {self.row.status.name}",
                    hint=f"waterclock run logs -f '{self._run}' follows on",
                    exit_code=ExitCode.TIMEOUT,
                )
            time.sleep(_LOOK_AGAIN_S)

    def new_lines(self) -> Iterator[LogRow]:
        """What has not been told yet, of each attempt in order; a note again where it tells of more."""
        last = max(1, self.row.attempt)
        for attempt in range(1, last + 1) if self._attempt is None else (self._attempt,):
            while True:  # ends: every page goes further, and an attempt's lines are bounded
                page = self._store.lines(self._run, attempt, _PAGE, self._seen.get(attempt))
                for line in page:
                    if line.seq < NOTE_SEQ:
                        self._seen[attempt] = (line.fence, line.seq)
                        yield line
                    elif self._notes.get((attempt, line.fence)) != line.text:
                        self._notes[attempt, line.fence] = line.text
                        yield line
                if len(page) < _PAGE:
                    break

    def told(self, line: LogRow) -> Iterator[str]:
        """The line for a person, with one ahead of it where another attempt begins."""
        if self._headed != (line.attempt, line.fence):
            self._headed = (line.attempt, line.fence)
            yield f"--- attempt {line.attempt}{self._whose(line)}, {format_rfc3339(line.at)}"
        moment = format_rfc3339(line.at)[11:].rstrip("Z")
        yield f"{moment:<15} {_WORDS.get(line.stream, '?'):<4} {visible(line.text)}"

    def _whose(self, line: LogRow) -> str:
        """The worker of the run's last attempt; of a claim that is not the accepted one, that it did not count."""
        if line.attempt != self.row.attempt or not self.row.fence:
            return ""
        if line.fence != self.row.fence:
            return f" (another claim of it, {line.fence}: it did not count)"
        return f" on {self.row.worker}"


def _document(line: LogRow) -> dict[str, Any]:
    return {
        "attempt": line.attempt,
        "fencing_token": line.fence,
        "seq": line.seq,
        "at": format_rfc3339(line.at),
        "stream": line.stream.value.lower(),
        "text": line.text,
    }
