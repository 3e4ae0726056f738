"""What a file gives twice, or nobody can show, is told; and a large one is read in one pass."""

from __future__ import annotations

import time

import pytest
import yaml

from waterclock.importing.celery_json import read_celery_json
from waterclock.importing.celery_python import read_celery_python
from waterclock.importing.gathering import Gathering, Weight
from waterclock.importing.kubernetes import read_kubernetes
from waterclock.model.errors import RequestError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": {"task": "t.x", "schedule": 60}, "a": {"task": "t.y", "schedule": 90}}', "gives the same key again"),
        ('{"a": {"task": "t.x", "schedule": 60, "schedule": 90}}', "schedule is given twice"),
        ('{"a": {"task": "t.x", "schedule": 60, "kwargs": {"n": 1, "n": 2}}}', "n is given twice"),
        (
            '{"a": {"task": "t.x", "schedule": {"every": 60, "every": 9, "__type__": "interval"}}}',
            "every is given twice",
        ),
    ],
)
def test_what_json_gives_twice_is_told(text: str, told: str) -> None:
    gathering = Gathering("acme")
    read_celery_json(text, gathering, zone="UTC")
    assert told in "".join(remark.why for remark in gathering.found().remarks if remark.weight is Weight.LEFT_OUT)


def test_a_json_schedule_that_is_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="beat_schedule twice"):
        read_celery_json('{"beat_schedule": {}, "beat_schedule": {}}', Gathering("acme"), zone=None)


def test_a_part_of_a_python_entry_that_is_given_twice_is_told() -> None:
    gathering = Gathering("acme")
    read_celery_python('beat_schedule = {"a": {"task": "t.x", "schedule": 60, "schedule": 9}}', gathering, zone="UTC")
    found = gathering.found()
    assert (found.drafts, found.left_out_count) == ((), 1)
    assert "schedule is given twice" in {remark.why for remark in found.remarks}


def test_a_key_that_no_terminal_can_show_ends_nothing() -> None:
    gathering = Gathering("acme")
    text = '{"a\\ud800": {"task": "t.x", "schedule": 60, "colour": 1}}'
    read_celery_json(text, gathering, zone="UTC")
    found = gathering.found()
    assert [draft.name[:2] for draft in found.drafts] == ["a-"]
    assert "".join(remark.what for remark in found.remarks).encode()


def test_a_cron_job_of_very_many_keys_is_read_in_one_pass() -> None:
    keys = [f"k{number}" for number in range(20_000)]
    text = "kind: CronJob\nmetadata:\n" + "".join(f"  {key}: 1\n" for key in keys) + "  k5: 2\n"
    gathering = Gathering("acme")
    began_s = time.process_time()
    read_kubernetes(text, gathering, zone="UTC")
    parse_s = time.process_time()
    list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    composed_s = time.process_time() - parse_s
    assert parse_s - began_s < 2 * composed_s + 0.5
    assert "k5 is given twice" in {remark.why for remark in gathering.found().remarks}


@pytest.mark.parametrize(("deadline", "told"), [(86_400, 0), (259_200, 1)])
def test_a_deadline_longer_than_a_program_may_run_is_told(deadline: int, told: int) -> None:
    gathering = Gathering("acme")
    pod = {"template": {"spec": {"containers": [{"name": "a", "image": "i", "command": ["/bin/x"]}]}}}
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"activeDeadlineSeconds": deadline, **pod}}}
    text = yaml.safe_dump({"kind": "CronJob", "metadata": {"name": "long"}, "spec": spec})
    read_kubernetes(text, gathering, zone="UTC")
    lost = [remark.what for remark in gathering.found().remarks if remark.weight is Weight.LOST]
    assert len([what for what in lost if "activeDeadlineSeconds" in what]) == told
