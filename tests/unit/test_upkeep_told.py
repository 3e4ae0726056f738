"""What upkeep tells reaches people: the doctor's findings, the API's figures, the command line, a job's expectation."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.clusters import doctor_upkeep
from waterclock.clusters.finding import Finding, State
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S
from waterclock.model.zones import TZDATA_VERSION
from waterclock.store.memory import MemoryStore
from waterclock.store.upkeep import DUE_SWEEP, LEDGER, OVERDUE, TZDATA

from .api_world import ApiWorld

HOUR_US = 3_600 * US_PER_S
NOW = 1_795_000_020 * US_PER_S
BALANCED = {"missing": 0, "doubled": 0, "wrong": 0, "unproved_hours": 0, "named": [], "since": 0}
REPAIR = {"job_id": "acme:hourly", "due_at": NOW, "at": NOW - HOUR_US}
FAULT = {"kind": "missing", "run_id": "acme:hourly@20261118T100000Z", "why": "neither", "hour": "2026-11-18T10:00:00Z"}


def findings(store: MemoryStore) -> dict[str, Finding]:
    return {each.check: each for each in doctor_upkeep.examine(store, ManualClock(NOW))}


def empty_store() -> MemoryStore:
    return MemoryStore(ManualClock(NOW))


def test_an_installation_in_which_all_is_well_has_no_bad_finding() -> None:
    store = empty_store()
    assert {each.state for each in findings(store).values()} == {State.OK}
    store.tell(DUE_SWEEP, "0", {"repairs": 0, "named": [], "ended_at": NOW, "tzdata": TZDATA_VERSION}, NOW)
    store.tell(LEDGER, "0", {**BALANCED, "verified_to": NOW - HOUR_US}, NOW)
    store.tell(OVERDUE, "0", {"count": 0, "named": [], "watched": 3, "ended_at": NOW}, NOW)
    store.tell(TZDATA, TZDATA_VERSION, {}, NOW)
    assert {each.state for each in findings(store).values()} == {State.OK}


def test_a_repair_of_this_week_is_named_and_an_old_one_is_only_counted() -> None:
    store = empty_store()
    store.tell(DUE_SWEEP, "0", {"repairs": 4, "named": [REPAIR], "ended_at": NOW}, NOW)
    found = findings(store)[doctor_upkeep.SWEEP_CHECK]
    assert found.state is State.WARN
    assert "acme:hourly" in found.found
    old = {**REPAIR, "at": NOW - 8 * 24 * HOUR_US}
    store.tell(DUE_SWEEP, "0", {"repairs": 4, "named": [old], "ended_at": NOW}, NOW + 1)
    assert findings(store)[doctor_upkeep.SWEEP_CHECK].state is State.OK


def test_what_is_missing_in_the_books_fails_and_is_named() -> None:
    store = empty_store()
    store.tell(LEDGER, "0", {**BALANCED, "verified_to": NOW}, NOW)
    store.tell(LEDGER, "1", {**BALANCED, "verified_to": NOW, "missing": 1, "named": [FAULT]}, NOW)
    found = findings(store)[doctor_upkeep.LEDGER_CHECK]
    assert found.state is State.FAIL
    assert FAULT["run_id"] in found.found
    assert found.next_step == "waterclock ledger verify --from 2026-11-18T10:00:00Z"


def test_books_that_nobody_verifies_any_more_are_a_warning() -> None:
    store = empty_store()
    store.tell(LEDGER, "0", {**BALANCED, "verified_to": NOW}, NOW)
    store.tell(LEDGER, "1", {**BALANCED, "verified_to": NOW - 4 * HOUR_US}, NOW)
    assert findings(store)[doctor_upkeep.LEDGER_CHECK].state is State.WARN
    store.tell(LEDGER, "1", {**BALANCED, "verified_to": NOW, "unproved_hours": 2}, NOW + 1)
    assert findings(store)[doctor_upkeep.LEDGER_CHECK].state is State.WARN


def test_overdue_jobs_are_named() -> None:
    store = empty_store()
    named = [{"job_id": "acme:late", "by": NOW - 9, "succeeded_at": 0}]
    store.tell(OVERDUE, "1", {"count": 5, "named": named, "watched": 9, "ended_at": NOW}, NOW)
    found = findings(store)[doctor_upkeep.OVERDUE_CHECK]
    assert found.state is State.WARN
    assert found.next_step == "waterclock job show acme:late"


@pytest.mark.parametrize(
    ("what", "check"), [(DUE_SWEEP, doctor_upkeep.SWEEP_CHECK), (OVERDUE, doctor_upkeep.OVERDUE_CHECK)]
)
def test_a_work_that_nobody_does_any_more_is_a_warning(what: str, check: str) -> None:
    store = empty_store()
    store.tell(what, "0", {"ended_at": NOW}, NOW)
    store.tell(what, "1", {"ended_at": NOW}, NOW - 2 * HOUR_US)
    found = findings(store)[check]
    assert (found.state, "[1]" in found.found) == (State.WARN, True)
    store.tell(what, "1", {"ended_at": NOW}, NOW)
    assert findings(store)[check].state is State.OK


def test_older_zone_data_here_and_shards_that_were_not_gone_through_are_told() -> None:
    store = empty_store()
    store.tell(TZDATA, "2999a", {}, NOW)
    assert findings(store)[doctor_upkeep.ZONES_CHECK].state is State.WARN
    store.tell(TZDATA, "2999a", {"withdrawn": True}, NOW + 1)
    store.tell(TZDATA, TZDATA_VERSION, {}, NOW)
    assert findings(store)[doctor_upkeep.ZONES_CHECK].state is State.OK
    store.tell(DUE_SWEEP, "3", {"tzdata": "2020a"}, NOW)
    found = findings(store)[doctor_upkeep.ZONES_CHECK]
    assert (found.state, "[3]" in found.found) == (State.WARN, True)


def test_a_store_that_does_not_answer_is_a_warning() -> None:
    store = empty_store()

    def away(*_: object) -> None:
        raise BackendDown("cassandra", "away")

    store.tables.on_call = away
    assert {each.state for each in findings(store).values()} == {State.WARN}


def test_the_figures_of_all_shards_are_summed_and_the_verified_hours_stand_by_shard() -> None:
    with ApiWorld() as world:
        with world.lock:
            now = world.clock.now()
            for shard in range(2):
                told = {**BALANCED, "verified_to": (shard + 1) * HOUR_US, "missing": 2, "doubled": shard}
                world.store.tell(LEDGER, str(shard), told, now + 9_000_000)
                world.store.tell(DUE_SWEEP, str(shard), {"repairs": 3}, now + 9_000_000)
                world.store.tell(OVERDUE, str(shard), {"count": shard}, now + 9_000_000)
        lines = set(world.client.get("/metrics").text.splitlines())
    assert {
        "waterclock_due_repairs_total 6.0",
        "waterclock_jobs_overdue 1.0",
        "waterclock_ledger_missing_total 4.0",
        "waterclock_ledger_doubled_total 1.0",
        'waterclock_ledger_verified_to_timestamp_seconds{shard="0"} 3600.0',
        'waterclock_ledger_verified_to_timestamp_seconds{shard="1"} 7200.0',
    } <= lines


def test_a_job_tells_until_when_a_success_is_waited_for() -> None:
    with ApiWorld() as world:
        world.create(name="watched", expect_within="26h")
        world.create(name="plain")
        shown = world.client.get("/api/v1/jobs/watched").json()
        assert shown["expect_within"] == "26h"
        assert shown["expectation"]["overdue"] is False
        assert shown["expectation"]["succeeded_at"] is None
        assert world.client.get("/api/v1/jobs/plain").json()["expectation"] is None
