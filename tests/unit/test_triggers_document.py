"""What starts a job, in its document: what is written comes back, what is wrong is refused where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.api.changes import changed
from waterclock.commands.documents import read_document
from waterclock.commands.job_options import on_jobs
from waterclock.intake.avro_form import from_record
from waterclock.model.document import schedule_text, spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import RunStatus
from waterclock.model.job import NEVER, Command, CommandKind, Every, JobSpec
from waterclock.model.job_event import JobEvent, event_of
from waterclock.model.preview import preview_job
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.triggers import Ended, RunEnds, Triggers, triggers_from_json, triggers_to_json
from waterclock.wire.codec import decode_command, decode_job_event, encode_command, encode_job_event

REPORT = {"handler": "etl.report", "on": {"any": [{"job": "load-orders"}, {"job": "load-items", "ended": "any"}]}}
STARTS = Triggers((RunEnds("load-orders", Ended.SUCCEEDED), RunEnds("load-items", Ended.ANY)))


def refused(document: dict[str, Any], job_id: str = "") -> RequestError:
    with pytest.raises(RequestError) as error:
        spec_from_document(document, job_id=job_id)
    assert error.value.hint
    return error.value


def test_a_job_that_others_start_needs_no_schedule_and_has_no_fires() -> None:
    spec = spec_from_document(REPORT, job_id="acme:report")
    assert (spec.on, spec.schedule) == (STARTS, NEVER)
    preview = preview_job(spec, 0, 1_000, 5)
    assert (preview.rows, preview.words) == ((), "No fires of its own: other jobs start it")
    document = spec_to_document(spec)
    assert "dates" not in document
    assert schedule_text(document) == "on load-orders, load-items"


@pytest.mark.parametrize("schedule", [{}, {"every": "5m"}, {"cron": "0 9 * * *"}])
def test_what_is_said_comes_back_by_every_way(schedule: dict[str, Any]) -> None:
    spec = spec_from_document(REPORT | schedule)
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    command = Command(CommandKind.CREATE, "acme:report", "c", "a", 0, spec=spec)
    assert decode_command(encode_command(command)) == command
    event = decode_job_event(encode_job_event(event_of(command)))
    assert spec_from_document(from_record(event).document) == spec


def test_since_when_a_condition_stands_is_kept_and_makes_no_other_job() -> None:
    first = STARTS.standing_since(5, None)
    later = Triggers((RunEnds("load-new"), RunEnds("load-orders"))).standing_since(9, first)
    assert (first.since, later.since) == ((5, 5), (9, 5))
    assert triggers_from_json(triggers_to_json(later)).since == (9, 5)  # type: ignore[union-attr]
    assert first == STARTS


@pytest.mark.parametrize(
    ("ended", "counted"),
    [
        (Ended.SUCCEEDED, {RunStatus.SUCCEEDED}),
        (Ended.FAILED, {RunStatus.FAILED}),
        (Ended.ANY, {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED}),
    ],
)
def test_ends_count_as_they_are_named_and_a_skipped_fire_never_does(ended: Ended, counted: set[RunStatus]) -> None:
    starts = Triggers((RunEnds("load", ended),), since=(100,))
    assert {status for status in RunStatus if starts.met_by("load", status, 101)} == counted
    assert not any(starts.met_by("load", status, 100) for status in RunStatus)
    assert not any(starts.met_by("other", status, 101) for status in RunStatus)


@pytest.mark.parametrize(
    ("on", "pointer"),
    [
        (3, "/on"),
        ({}, "/on"),
        ({"all": [{"job": "a"}]}, "/on/all"),
        ({"any": {"job": "a"}}, "/on/any"),
        ({"any": []}, "/on/any"),
        ({"any": [{"job": f"a{n}"} for n in range(17)]}, "/on/any"),
        ({"any": [3]}, "/on/any/0"),
        ({"any": [{"ended": "failed"}]}, "/on/any/0/job"),
        ({"any": [{"job": "acme:load"}]}, "/on/any/0/job"),
        ({"any": [{"job": "a", "when": "failed"}]}, "/on/any/0"),
        ({"any": [{"job": "a", "ended": "skipped"}]}, "/on/any/0/ended"),
        ({"any": [{"job": "a"}, {"job": "b"}, {"job": "a", "ended": "succeeded"}]}, "/on/any/2"),
        ({"any": [{"job": "b"}, {"job": "report", "ended": "failed"}]}, "/on/any/1/job"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_place(on: object, pointer: str) -> None:
    assert refused(REPORT | {"on": on}, "acme:report").pointer == pointer


def test_what_goes_with_a_schedule_is_refused_without_one() -> None:
    assert refused(REPORT | {"zone": "Europe/Berlin"}).pointer == "/zone"
    assert refused({"handler": "h", "dates": []}).pointer == "/dates"
    assert refused({"handler": "h"}).pointer == ""


@pytest.mark.parametrize("text", ["{", "[]"])
def test_an_event_that_says_it_wrongly_is_refused_at_its_place(text: str) -> None:
    event = JobEvent(CommandKind.CREATE, name="x", handler="h", on=text)
    with pytest.raises(RequestError) as error:
        spec_from_document(from_record(event).document)
    assert error.value.pointer == "/on"


def test_a_schedule_can_be_taken_away_from_a_job_that_others_start() -> None:
    both = spec_to_document(spec_from_document(REPORT | {"cron": "0 9 * * *", "zone": "Europe/Berlin"}))
    alone = spec_from_document(changed(both, {"cron": None}))
    assert (alone.schedule, alone.on) == (NEVER, STARTS)
    assert spec_from_document(changed(both, {"on": None})).on is None


def test_a_yaml_file_may_say_on_as_it_is(tmp_path: Any) -> None:
    file = tmp_path / "report.yaml"
    file.write_text("handler: etl.report\non:\n  any:\n    - {job: load-orders}\nat_most_once: true\n")
    document = read_document(file)
    assert document == {
        "handler": "etl.report",
        "on": {"any": [{"job": "load-orders"}]},
        "at_most_once": True,
    }


def test_the_command_line_says_it_in_a_word() -> None:
    assert on_jobs(None) is None
    assert on_jobs(["load-orders", "load-items:any"]) == REPORT["on"]
    assert refused({"handler": "h", "on": on_jobs(["load:"])}).pointer == "/on/any/0/ended"


def test_a_plain_job_is_stored_as_it_was_before() -> None:
    assert b"on" not in spec_to_json(JobSpec("h", Every(5_000_000))).replace(b"payload", b"")
