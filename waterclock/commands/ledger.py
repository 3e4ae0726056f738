"""``waterclock ledger``: do the books balance? Every owed fire made one run or one recorded skip, or it is named.

Changes nothing. What a verdict means, and what it cannot see, says ``docs/ledger.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.ledger.facts import HOUR_US
from waterclock.ledger.shards import Asked, Ledger, ShardVerdict, Versions
from waterclock.ledger.sums import FaultKind, HourSum
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, partition_of
from waterclock.model.time_text import format_rfc3339

from .connect import here, job_id_of, names_of, open_log, open_store
from .failing import ExitCode
from .instants import instant_or_age
from .output import Format, OutputOption, default_format, say, show_rows

app = typer.Typer(add_completion=False, help="Prove that every owed fire ran or was skipped.", no_args_is_help=True)

CANNOT_JUDGE = 2
"""The exit code where a part of the span could not be judged, and nothing is wrong in the rest."""

SPAN_US_MAX = 31 * 86_400 * US_PER_S
_BEHIND_US = US_PER_MINUTE
_COLUMNS = ("shard", "hour", "owed", "runs", "skipped", "not_yet", "missing", "doubled", "wrong")


@app.callback()
def _group() -> None:
    """Prove that every owed fire ran or was skipped."""


@app.command()
def verify(
    start: Annotated[str, typer.Option("--from", help="36h, 7d (before now) or RFC 3339")] = "24h",
    end: Annotated[str | None, typer.Option("--to", help="The same (now)")] = None,
    job: Annotated[list[str] | None, typer.Option("--job", help="Only these (all)")] = None,
    shard: Annotated[int | None, typer.Option(min=0, help="Only this partition (all)")] = None,
    names: Annotated[int, typer.Option(min=0, max=10_000, help="Name so many faults of each kind and hour")] = 10,
    output: OutputOption = None,
) -> None:
    """Compute again what was owed, and hold it against what was made and skipped, by shard and hour.

    Exit code 0: it balances; 1: it does not; 2: a part of the span cannot be judged; 3: there is no such job; 5: a
    backend does not answer.
    """
    settings, now = here(), SystemClock().now()
    from_at, until_at = _span(start, end, now)
    asked = Asked(from_at, until_at, tuple(job_id_of(settings, each) for each in job or ()), names)
    with open_store(settings) as store, open_log(settings) as log:
        ledger = Ledger(log, names_of(settings), store, settings.generation)
        if shard is not None and shard >= ledger.shards:
            raise RequestError(f"there is no shard {shard}", pointer="/shard", hint=f"0 to {ledger.shards - 1}")
        _check_jobs(store, asked.job_ids, shard, ledger.shards)
        positions = ledger.positions()
        shards = range(ledger.shards) if shard is None else [shard]
        verdicts = [ledger.judge(each, asked, positions) for each in shards]
    _show(verdicts, output)
    _tell(verdicts, min(until_at, now))
    if not all(verdict.is_balanced for verdict in verdicts):
        raise typer.Exit(ExitCode.FAILED)
    if not all(verdict.is_whole for verdict in verdicts):
        raise typer.Exit(CANNOT_JUDGE)


def _check_jobs(store: Versions, job_ids: Sequence[str], shard: int | None, shards: int) -> None:
    """What nobody has, or lies elsewhere, owes nothing, and that would balance."""
    known = store.versions(job_ids)
    for job_id in job_ids:
        if job_id not in known:
            raise NotFound(
                f"There is no job {job_id}, and none that was deleted lately",
                pointer="/job",
                hint="`waterclock job list` shows those there are",
            )
        of_job = partition_of(job_id, shards)
        if shard not in (None, of_job):
            raise RequestError(f"{job_id} lies in shard {of_job}", pointer="/shard", hint=f"--shard {of_job}, or none")


def _span(start: str, end: str | None, now: Instant) -> tuple[Instant, Instant]:
    from_at = instant_or_age(start, now, "/from")
    until_at = now if end is None else instant_or_age(end, now, "/to")
    if not from_at < until_at:
        raise RequestError("the span ends before it begins", pointer="/to", hint="Give --from before --to")
    if until_at - from_at > SPAN_US_MAX:
        raise RequestError(
            "the span is longer than 31 days", pointer="/from", hint="run-events is kept for 30 days: judge a part"
        )
    return from_at, until_at


def _show(verdicts: Sequence[ShardVerdict], output: Format | None) -> None:
    if (output or default_format()) is not Format.TABLE:
        show_rows([row for verdict in verdicts for row in rows_of(verdict)], _COLUMNS, output)
        return
    rows = [row | {"skipped": _reasons(row["skipped"])} for verdict in verdicts for row in rows_of(verdict)]
    total = _total(verdicts)
    rows.append(_figures(total) | {"shard": "all", "skipped": _reasons(total.skipped)})
    show_rows(rows, _COLUMNS, output)


def rows_of(verdict: ShardVerdict) -> Iterator[dict[str, Any]]:
    """A row for each hour in which something was owed or is wrong; of the faults as many as were to be named."""
    for hour, summed in sorted(verdict.hours.items()):
        faults = [fault._asdict() | {"kind": fault.kind.value} for fault in summed.named]
        place = {"shard": verdict.shard, "hour": format_rfc3339(hour * HOUR_US)}
        yield place | _figures(summed) | {"named": faults, "not_named": summed.faults.total() - len(faults)}


def _figures(summed: HourSum) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "owed": summed.owed,
        "runs": summed.runs,
        "skipped": dict(sorted(summed.skipped.items())),
    }
    return figures | {"not_yet": summed.not_yet} | {kind.value: summed.faults[kind] for kind in FaultKind}


def _total(verdicts: Sequence[ShardVerdict]) -> HourSum:
    total = HourSum()
    for summed in (summed for verdict in verdicts for summed in verdict.hours.values()):
        total.owed += summed.owed
        total.runs += summed.runs
        total.not_yet += summed.not_yet
        total.skipped += summed.skipped
        total.faults += summed.faults
    return total


def _reasons(skipped: Counter[str] | dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(skipped.items())) or "0"


def _tell(verdicts: Sequence[ShardVerdict], until_at: Instant) -> None:
    """What is wrong, what was not judged, and the sum, for people: to stderr."""
    for verdict in verdicts:
        for hour, summed in sorted(verdict.hours.items()):
            for fault in summed.named:
                say(f"{fault.kind.value}: {fault.run_id}: {fault.why}")
            if summed.faults.total() > len(summed.named):
                at = format_rfc3339(hour * HOUR_US)
                say(f"shard {verdict.shard}, {at}: not all of {summed.faults.total()} faults are named: --names")
        for remark in verdict.remarks:
            say(f"shard {verdict.shard}: {remark.text}")
        if verdict.is_whole and verdict.decided_to < until_at - _BEHIND_US:
            at = format_rfc3339(verdict.decided_to)
            say(f"shard {verdict.shard}: decided up to {at}; what is due since is not judged. Does its dispatcher run?")
    total = _total(verdicts)
    word = "balances" if not total.faults else "does not balance"
    say(f"owed {total.owed} = runs {total.runs} + skipped {total.skipped.total()} ({_reasons(total.skipped)}): {word}")
