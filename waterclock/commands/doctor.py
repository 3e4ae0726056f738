"""``waterclock doctor``: what is wrong with the clusters, and what to do about it. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from waterclock.clock import Clock, SystemClock
from waterclock.clusters import (
    doctor_cassandra,
    doctor_catch_up,
    doctor_clocks,
    doctor_forgotten,
    doctor_kafka,
    doctor_ledger,
    doctor_runs,
    doctor_upkeep,
)
from waterclock.clusters.finding import Finding, State
from waterclock.clusters.plan import plan_of
from waterclock.log.port import Log
from waterclock.model.errors import BackendDown, WaterclockError
from waterclock.settings import Settings
from waterclock.store.cassandra import CassandraStore

from .connect import here, names_of, open_log, open_store
from .failing import ExitCode
from .init import named
from .output import OutputOption, say, show_rows

app = typer.Typer(add_completion=False, help="Say what is wrong with the clusters, and what to do.")


@app.command()
def doctor(
    output: OutputOption = None,
    principal: Annotated[
        str, typer.Option(help="What the cluster calls a role's user, as given to init")
    ] = "{prefix}-{role}",
) -> None:
    """Look at Kafka, Cassandra, clocks and zone data; a line for each check, with the next command.

    Exit code 0: nothing fails (warnings may stand); 1: something does; 5: a backend does not answer.
    """
    findings = list(_examined(here(), principal))
    rows = [finding._asdict() | {"state": finding.state.value} for finding in findings]
    show_rows(rows, ("state", "check", "found", "next_step"), output)
    counts = {state: sum(finding.state is state for finding in findings) for state in State}
    say(", ".join(f"{count} {state.value}" for state, count in counts.items() if count))
    if counts[State.UNREACHABLE]:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if counts[State.FAIL]:
        raise typer.Exit(ExitCode.FAILED)


def _examined(settings: Settings, principal: str) -> Iterator[Finding]:
    plan, clock = plan_of(settings), SystemClock()
    of_kafka = list(doctor_kafka.examine(plan, settings, named(settings, principal), time.sleep))
    yield from of_kafka
    of_cassandra = list(doctor_cassandra.examine(settings, clock))
    yield from of_cassandra
    is_away = any(finding.state is State.UNREACHABLE for finding in of_cassandra)
    if of_kafka[0].state is State.OK:
        with open_log(settings) as log:
            yield from doctor_clocks.examine(log, names_of(settings), clock)
            yield from doctor_catch_up.examine(log, names_of(settings), clock, time.sleep)
            yield from doctor_runs.examine(log, names_of(settings), clock, settings.generation)
            yield from doctor_forgotten.examine(log, names_of(settings), clock, settings.generation)
            yield from _ledger(settings, log, clock, is_away=is_away)
    yield from _upkeep(settings, clock, is_away=is_away)


def _ledger(settings: Settings, log: Log, clock: Clock, *, is_away: bool) -> Iterator[Finding]:
    try:
        with _store(settings, is_away=is_away) as store:
            yield from doctor_ledger.examine(log, names_of(settings), store, clock, settings.generation)
    except WaterclockError as trouble:  # what is wrong with Cassandra, its own findings have said
        yield Finding(doctor_ledger.CHECK, State.WARN, str(trouble), "It cannot be judged now")


def _upkeep(settings: Settings, clock: Clock, *, is_away: bool) -> Iterator[Finding]:
    try:
        with _store(settings, is_away=is_away) as store:
            yield from doctor_upkeep.examine(store, clock)
    except WaterclockError as trouble:
        yield Finding(doctor_upkeep.SWEEP_CHECK, State.WARN, str(trouble), "It cannot be told now")


@contextmanager
def _store(settings: Settings, *, is_away: bool) -> Iterator[CassandraStore]:
    """The store, which is not waited for once more where it ``is_away``. Raises BackendDown."""
    if is_away:
        raise BackendDown("cassandra", "it did not answer a moment ago")
    with open_store(settings) as store:
        yield store
