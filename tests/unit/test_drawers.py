"""Drawers are on-disk format: which one a job has, and what stands in a row."""

from __future__ import annotations

import orjson
import pytest

from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import slot_of
from waterclock.model.job import Tier
from waterclock.store.drawers import DRAWERS, drawer_of, drawer_values, run_in_drawer
from waterclock.store.port import RunRow

AT = 20_000 * 86_400_000_000 + 7
RUN = RunRow("acme:nightly", AT, 0, 11, Tier.MEDIUM, "SCHEDULE", RunStatus.SUCCEEDED, Outcome.SUCCEEDED, 1, AT + 1,
             AT + 2, AT + 3, "worker-1", 99, "", b"42", "", "", "", 0, 0, AT + 97)  # fmt: skip
FULL = RUN._replace(
    series=5, tier=Tier.LOW, origin="REDRIVE", status=RunStatus.RETRYING, outcome=Outcome.TIMED_OUT, error="nö\nat x",
    reason="why", zone="Europe/Berlin", tzdata="2026a", skipped_count=3, skipped_to=AT + 9, next_attempt_at=AT + 5,
    linked_run="acme:x@20261121T090000Z", cancel_requested=True, is_last=True, is_dag=True, paused=True,
    rerun_from=("load", "report"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("job_id", "drawer"),
    [("21", 236), ("foobar", 958), ("acme:nightly", 412), ("default:ping", 101), ("t:ünïcode", 114)],
)
def test_the_drawer_of_a_job_is_on_disk_format(job_id: str, drawer: int) -> None:
    assert drawer_of(job_id) == drawer


def test_a_drawer_holds_jobs_of_one_slot() -> None:
    jobs = [f"acme:job-{number}" for number in range(3_000)]

    assert all(drawer_of(job) % 256 == slot_of(job) for job in jobs)
    assert len({drawer_of(job) for job in jobs}) > DRAWERS * 0.9


def test_a_row_is_on_disk_format() -> None:
    assert drawer_values(RUN) == (
        20_000, 412, "acme:nightly", AT, 0, 3,
        ('{"revision":11,"tier":1,"origin":"SCHEDULE","outcome":1,"attempt":1,"dispatched_at":1728000000000008,'
        '"started_at":1728000000000009,"ended_at":1728000000000010,"worker":"worker-1","fence":99}'),
        b"42",
    )  # fmt: skip


@pytest.mark.parametrize("run", [RUN, FULL, RUN._replace(result=None), RUN._replace(fire_at=-5, result=b"")])
def test_a_run_is_read_back_whole(run: RunRow) -> None:
    values = drawer_values(run)

    assert run_in_drawer((*values[2:], run.wts)) == run


def test_every_field_of_a_run_is_told_where_it_is_not_absent() -> None:
    told = orjson.loads(drawer_values(FULL)[6])

    assert set(told) | {"job_id", "fire_at", "series", "status", "result", "wts"} == set(RunRow._fields)


def test_a_name_of_a_later_release_is_passed_over() -> None:
    *head, text, result = drawer_values(RUN)
    later = orjson.dumps(orjson.loads(text) | {"mood": "good"}).decode()

    assert run_in_drawer((*head[2:], later, result, RUN.wts)) == RUN


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", '{"tier":9}', '{"outcome":"x"}', '{"rerun_from":3}'])
def test_a_damaged_cell_is_told_with_its_run(text: str | None) -> None:
    *head, _, result = drawer_values(RUN)

    with pytest.raises(UndecodableRecord, match=f"acme:nightly at {AT}"):
        run_in_drawer((*head[2:], text, result, RUN.wts))
