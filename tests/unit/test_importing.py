"""Other schedulers' files become jobs, and whatever is not carried over is said, with its line."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from waterclock.importing.celery_json import read_celery_json
from waterclock.importing.celery_python import read_celery_python
from waterclock.importing.crontab import looks_like_system, read_crontab
from waterclock.importing.gathering import ENTRIES_MAX, Found, Gathering, Weight
from waterclock.importing.kubernetes import read_kubernetes
from waterclock.importing.naming import name_of, name_of_command
from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import make_job_id

FOLDER = Path(__file__).resolve().parent / "importing"
Reader = Callable[[str, Gathering], None]

READERS: dict[str, Reader] = {
    "user.crontab": lambda text, to: read_crontab(text, to, zone=None, has_user=False),
    "system.crontab": lambda text, to: read_crontab(text, to, zone="Europe/Berlin", has_user=True),
    "celery_app.py.txt": lambda text, to: read_celery_python(text, to, zone=None),
    "redbeat.json": lambda text, to: read_celery_json(text, to, zone=None),
    "cronjobs.yaml": lambda text, to: read_kubernetes(text, to, zone=None),
}


def found_in(text: str, reader: Reader) -> Found:
    to = Gathering("acme")
    reader(text, to)
    return to.found()


def crontab(text: str) -> Found:
    return found_in(text, READERS["user.crontab"])


def celery(text: str) -> Found:
    return found_in(text, READERS["celery_app.py.txt"])


@pytest.mark.parametrize("file", READERS)
def test_a_real_file_makes_the_jobs_and_remarks_of_its_golden_file(file: str) -> None:
    """After a change on purpose: WATERCLOCK_WRITE_GOLDEN=1 pytest tests/unit/test_importing.py; read the difference."""
    found = found_in((FOLDER / file).read_text(encoding="utf-8"), READERS[file])
    lines = [f"{draft.line}: {orjson.dumps(draft.document).decode()}" for draft in found.drafts]
    lines += [f"{r.line}: {r.weight.value}: {r.what}: {r.why}. {r.hint}" for r in found.remarks]
    golden, text = FOLDER / f"{file}.golden", "\n".join(lines) + "\n"
    if os.environ.get("WATERCLOCK_WRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("file", READERS)
def test_what_is_shown_is_what_the_door_takes(file: str) -> None:
    for draft in found_in((FOLDER / file).read_text(encoding="utf-8"), READERS[file]).drafts:
        document = dict(orjson.loads(orjson.dumps(draft.document)))
        assert document.pop("name") == draft.name
        assert spec_from_document(document, job_id=make_job_id("acme", draft.name)) == draft.spec


def test_every_line_of_a_crontab_is_a_job_or_has_a_remark() -> None:
    """But comments and blank lines, and SHELL, which the jobs carry."""
    text = (FOLDER / "user.crontab").read_text(encoding="utf-8")
    found = crontab(text)
    said = {draft.line for draft in found.drafts} | {remark.line for remark in found.remarks}
    meant = {
        n for n, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#" and "SHELL" not in line
    }
    assert said - {0} == meant


def test_a_name_follows_from_its_entry_and_never_from_its_place() -> None:
    lines = [f"{minute} 3 * * * /usr/local/bin/job-{minute} --flag" for minute in range(20)]
    named = {draft.document["cron"]: draft.name for draft in crontab("\n".join(lines)).drafts}
    random.Random(7).shuffle(lines)
    again = {draft.document["cron"]: draft.name for draft in crontab("\n".join(lines[3:])).drafts}
    assert len(set(named.values())) == 20
    assert again.items() <= named.items()


def test_a_changed_time_keeps_the_name_of_a_command() -> None:
    (before,) = crontab("0 3 * * * /usr/bin/x").drafts
    (after,) = crontab("0 4 * * * /usr/bin/x").drafts
    assert before.name == after.name


def test_one_command_at_two_times_makes_two_jobs() -> None:
    first, second = crontab("0 3 * * * /usr/bin/x\n0 15 * * * /usr/bin/x").drafts
    assert second.name == f"{first.name}-2"


def test_names_are_golden() -> None:
    """Importing again changes the same jobs only if a release names them alike."""
    assert name_of("nightly-report") == "nightly-report"
    assert name_of("Every Monday Morning") == "every-monday-morning-5df4a7"
    assert name_of("日本") == "job-4cb764"
    assert name_of_command("cd /srv/app && ./manage.py clearsessions | tail") == "manage.py-clearsessions-909e69"
    assert name_of_command("/usr/bin/x", "root") != name_of_command("/usr/bin/x", "www-data")
    assert len(name_of("x" * 500)) <= 128


def test_a_value_of_a_setting_is_never_repeated() -> None:
    found = crontab("PGPASSWORD=hunter2\n0 3 * * * /usr/bin/x")
    assert "hunter2" not in repr(found)


def test_a_percent_begins_the_standard_input_as_cron_has_it() -> None:
    (draft,) = crontab(r"0 3 * * * /usr/bin/mail \%x%a%%b\%").drafts
    assert draft.spec.payload == b"a\n\nb%\n"
    assert draft.document["shell"]["argv"] == ["/usr/bin/mail", "%x"]


def test_a_command_is_taken_apart_only_where_a_shell_would_do_nothing_else() -> None:
    shell_words = (
        "x y",
        "/bin/x $HOME",
        "/bin/x *",
        "/bin/x 'a b'",
        "/bin/x > y",
        "/bin/x ~",
        "A=b /bin/x",
        "/bin/x {a,b}",
    )
    for command in shell_words:
        (draft,) = crontab(f"0 3 * * * {command}").drafts
        assert draft.document["shell"]["argv"] == ["/bin/sh", "-c", command]
    (draft,) = crontab("0 3 * * * /bin/x --a=b c,d +%F".replace("%", "\\%")).drafts
    assert draft.document["shell"]["argv"] == ["/bin/x", "--a=b", "c,d", "+%F"]


def test_flags_of_the_command_are_not_taken_for_flags_of_cron() -> None:
    (draft,) = crontab("0 3 * * * mail -s hello -n you").drafts
    assert draft.document["shell"]["argv"][2] == "mail -s hello -n you"


def test_of_what_is_left_out_nothing_else_is_said() -> None:
    lines = [remark.line for file, reader in READERS.items()
             for remark in found_in((FOLDER / file).read_text(encoding="utf-8"), reader).remarks
             if remark.weight is Weight.LEFT_OUT]  # fmt: skip
    assert len(lines) > 20
    to = Gathering("acme")
    read_crontab("61 0~5 * * * root /bin/x%y", to, zone="UTC", has_user=True)
    assert [remark.weight for remark in to.found().remarks] == [Weight.LEFT_OUT]


def test_only_a_newline_ends_a_line() -> None:
    for strange in "\x0b\x0c\x1c\x85\u2028\u2029":
        (draft,) = crontab(f"0 3 * * * printf 'a{strange}0 4 * * * /bin/true'\n").drafts
        assert strange in draft.document["shell"]["argv"][2]
    assert crontab("0 3 * * * /bin/x\r\n0 4 * * * /bin/y\r\n").drafts[0].document["shell"]["argv"] == ["/bin/x"]


def test_jobs_above_the_zone_that_a_file_names_are_told_to_be_in_none() -> None:
    def is_told(text: str) -> bool:
        return "time zone" in [remark.what for remark in crontab(text).remarks]

    assert is_told("0 3 * * * /bin/x\nCRON_TZ=Europe/Berlin\n0 4 * * * /bin/y\n")
    assert not is_told("CRON_TZ=Europe/Berlin\n0 4 * * * /bin/y\n")


def test_a_user_that_is_taken_for_the_command_is_told() -> None:
    line = "17 * * * * root cd / && run-parts /etc/cron.hourly"
    assert "--form system" in next(remark.hint for remark in crontab(line).remarks if remark.line)
    told = found_in(line, READERS["system.crontab"]).remarks
    assert [remark.what for remark in told if remark.line] == ["user root"]


def test_cron_runs_a_failed_command_no_second_time() -> None:
    (draft,) = crontab("0 3 * * * /bin/x").drafts
    assert draft.spec.policy.max_attempts == 1


def test_the_user_column_is_known_by_the_path() -> None:
    assert looks_like_system("/etc/crontab")
    assert looks_like_system("/etc/cron.d/php")
    assert not looks_like_system("/var/spool/cron/crontabs/anna")


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(RequestError, match="more than 5000 entries"):
        crontab("0 3 * * * /bin/x\n" * (ENTRIES_MAX + 1))


def test_nothing_of_a_python_file_is_run(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    found = celery(
        f"import pathlib\npathlib.Path({str(witness)!r}).touch()\n"
        f"beat_schedule = {{'a': {{'task': 't', 'schedule': pathlib.Path({str(witness)!r}).touch()}}}}\n"
    )
    assert [remark.weight for remark in found.remarks if remark.line] == [Weight.LEFT_OUT]
    assert not witness.exists()


@pytest.mark.parametrize(
    "text",
    [
        "CELERYBEAT_SCHEDULE = {'a': {'task': 't', 'schedule': 60}}",
        "CELERY_BEAT_SCHEDULE: dict = {'a': {'task': 't', 'schedule': 60}}",
        "app.conf['beat_schedule'] = {'a': {'task': 't', 'schedule': 60}}",
        "app.conf.update(beat_schedule={'a': {'task': 't', 'schedule': 60}})",
        "app.conf.update({'beat_schedule': {'a': {'task': 't', 'schedule': 60}}})",
        "app.conf.beat_schedule.update({'a': {'task': 't', 'schedule': 60}})",
        "app.conf.beat_schedule['a'] = {'task': 't', 'schedule': 2 * 30}",
        "app.conf.beat_schedule.update(a={'task': 't', 'schedule': 60})",
        "app.conf.beat_schedule |= {'a': {'task': 't', 'schedule': 60}}",
        "class Config:\n    beat_schedule = {'a': dict(task='t', schedule=60), **{'a': {'task': 't', 'schedule': 60}}}",
    ],
)
def test_a_beat_schedule_is_found_wherever_it_is_set(text: str) -> None:
    (draft,) = celery(text).drafts
    assert (draft.name, draft.document["every"]) == ("a", "1m")


def test_of_a_key_given_twice_the_last_counts_as_in_python() -> None:
    found = celery("beat_schedule = {'a': {'task': 't', 'schedule': 60},\n 'a': {'task': 't', 'schedule': 120}}")
    assert [draft.document["every"] for draft in found.drafts] == ["2m"]
    assert found.left_out_count == 1


@pytest.mark.parametrize(
    "change",
    [
        "if PROD:\n    N = 5",
        "N *= 60",
        "for N in (1, 2):\n    pass",
        "def f():\n    global N\n    N = 7",
    ],
)
def test_a_constant_that_the_file_changes_anywhere_is_none(change: str) -> None:
    found = celery(f"N = 60\n{change}\nbeat_schedule = {{'a': {{'task': 't', 'schedule': N}}}}")
    assert (found.drafts, found.left_out_count) == ((), 1)


@pytest.mark.parametrize(
    "change", ["JOBS['b'] = JOBS['a']", "JOBS.pop('a')", "JOBS['a']['schedule'] = 5", "del JOBS['a']"]
)
def test_a_constant_whose_inside_is_changed_is_none(change: str) -> None:
    found = celery(f"JOBS = {{'a': {{'task': 't', 'schedule': 60}}}}\n{change}\napp.conf.beat_schedule = JOBS")
    assert (found.drafts, found.left_out_count) == ((), 1)


@pytest.mark.parametrize(
    "change",
    [
        "del app.conf.beat_schedule['a']",
        "app.conf.beat_schedule.pop('a', None)",
        "app.conf.beat_schedule['a']['schedule'] = 5",
        "app.conf.beat_schedule['a'].update(schedule=5)",
        "app.conf.beat_schedule.setdefault('b', {'task': 't', 'schedule': 60})",
        "app.conf.beat_schedule.update(**more())",
        "app.conf.beat_schedule.update(b=entry())",
    ],
)
def test_what_is_done_to_a_schedule_is_read_or_told(change: str) -> None:
    found = celery(f"app.conf.beat_schedule = {{'a': {{'task': 't', 'schedule': 60}}}}\n{change}")
    assert [(remark.line, remark.weight) for remark in found.remarks if remark.line] == [(2, Weight.LEFT_OUT)]


def test_of_a_schedule_that_is_set_twice_the_last_counts_and_one_that_is_handed_on_is_one() -> None:
    entry = "{{'{}': {{'task': 't', 'schedule': 60}}}}"
    found = celery(f"beat_schedule = {entry.format('a')}\nbeat_schedule = {entry.format('b')}")
    assert ([draft.name for draft in found.drafts], found.left_out_count) == (["b"], 1)
    found = celery(f"CELERY_BEAT_SCHEDULE = {entry.format('a')}\napp.conf.update(beat_schedule=CELERY_BEAT_SCHEDULE)")
    assert ([draft.name for draft in found.drafts], found.left_out_count) == (["a"], 0)


@pytest.mark.parametrize("place", ["app.conf.beat_schedule", "CELERY_BEAT_SCHEDULE"])
def test_a_schedule_that_takes_itself_along_replaces_nothing(place: str) -> None:
    entry = "'{}': {{'task': 't', 'schedule': 60}}"
    a, b, c = (entry.format(name) for name in "abc")
    found = celery(f"{place} = {{{a}}}\nif BIG:\n    {place} = {{**{place}, {b}}}")
    assert ([draft.name for draft in found.drafts], found.left_out_count) == (["a", "b"], 0)
    found = celery(f"{place} = {{{a}}}\n{place} = {{**{place}, {b}}}\n{place} = {{{c}}}")
    assert ([draft.name for draft in found.drafts], found.left_out_count) == (["c"], 2)


@pytest.mark.parametrize(
    "other",
    ["def f(user):\n    user.timezone = 'Asia/Tokyo'", "def f():\n    timezone = 'Asia/Tokyo'", "user.timezone = 'X'"],
)
def test_the_zone_of_somebody_else_is_not_that_of_the_schedule(other: str) -> None:
    text = f"{other}\nbeat_schedule = {{'a': {{'task': 't', 'schedule': crontab(hour=3)}}}}\n"
    assert celery(text).drafts[0].document["zone"] == "UTC"
    assert celery(f"{text}app.conf.timezone = 'Europe/Oslo'").drafts[0].document["zone"] == "Europe/Oslo"


def test_an_interval_that_is_relative_by_place_is_left_out() -> None:
    found = celery("beat_schedule = {'a': {'task': 't', 'schedule': schedule(3600, True)}}")
    assert (found.drafts, found.left_out_count) == ((), 1)
    (draft,) = celery("beat_schedule = {'a': {'task': 't', 'schedule': schedule(3600, False)}}").drafts
    assert draft.document["every"] == "1h"


def test_constants_that_stand_for_ever_more_values_are_refused() -> None:
    doubling = "\n".join(f"A{n + 1} = [A{n}, A{n}]" for n in range(60))
    text = f"A0 = 1\n{doubling}\nbeat_schedule = {{'a': {{'task': 't', 'schedule': 60, 'args': A60}}}}"
    with pytest.raises(RequestError, match="200000 values"):
        celery(text)


@pytest.mark.parametrize("text", ["x = 1", "beat_schedule = {", "print 'two'", "B = [B]\nbeat_schedule = {B: B}", "\0"])
def test_a_python_file_without_a_schedule_that_can_be_read_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        celery(text)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["a: [", "a: &a [*b]", "%", "- " * 5_000, "", "{{ a }}: {", "kind: List\nitems: {}"])
def test_what_is_no_yaml_or_holds_nothing_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        found_in(text, READERS["cronjobs.yaml"])
    assert refused.value.hint


@pytest.mark.parametrize("text", ["kind: CronJob", "kind: CronJob\nspec: 7", "&a [*a]", "7"])
def test_strange_yaml_makes_no_job_and_says_so(text: str) -> None:
    found = found_in(text, READERS["cronjobs.yaml"])
    assert not found.drafts
    assert found.remarks


ONE = (
    "kind: CronJob\nmetadata: {{name: n}}\nspec: {{{0}schedule: '0 3 * * *', timeZone: UTC, jobTemplate: {{spec: "
    "{{template: {{spec: {{{1}containers: [{{image: i, command: [/x]}}]}}}}}}}}}}"
)


@pytest.mark.parametrize("word", ["true", "True", "yes", "on", "y", "'true'"])
def test_a_suspended_cron_job_is_left_out_in_all_words_of_yaml(word: str) -> None:
    found = found_in(ONE.format(f"suspend: {word}, ", ""), READERS["cronjobs.yaml"])
    assert (found.drafts, found.left_out_count) == ((), 1)
    assert found_in(ONE.format("suspend: no, ", ""), READERS["cronjobs.yaml"]).drafts


@pytest.mark.parametrize("more", ["<<: {suspend: true}, ", "schedule: '0 4 * * *', "])
def test_keys_from_elsewhere_and_keys_given_twice_are_left_out(more: str) -> None:
    found = found_in(ONE.format(more, ""), READERS["cronjobs.yaml"])
    assert (found.drafts, found.left_out_count) == ((), 1)
    found = found_in(ONE.format("", "<<: {initContainers: [{image: i}]}, "), READERS["cronjobs.yaml"])
    assert (found.drafts, found.left_out_count) == ((), 1)


def test_the_items_of_a_list_of_cron_jobs_need_no_kind_of_their_own() -> None:
    item = ONE.format("", "").removeprefix("kind: CronJob\n").replace("\n", "\n  ")
    found = found_in(f"kind: CronJobList\nitems:\n- {item}", READERS["cronjobs.yaml"])
    assert [draft.name for draft in found.drafts] == ["n"]


@pytest.mark.parametrize(("deadline_s", "window"), [(59, None), (60, "1m"), (31_536_000, "365d"), (31_536_001, None)])
def test_a_deadline_of_kubernetes_is_a_window_of_catch_up_where_it_means_the_same(
    deadline_s: int, window: str | None
) -> None:
    text = (FOLDER / "cronjobs.yaml").read_text(encoding="utf-8")
    found = found_in(text.replace("startingDeadlineSeconds: 200", f"startingDeadlineSeconds: {deadline_s}"),
                     READERS["cronjobs.yaml"])  # fmt: skip
    (draft,) = [draft for draft in found.drafts if draft.document["name"] == "shop.nightly-report"]
    assert draft.document.get("catch_up") == (None if window is None else {"window": window})
    told = [remark for remark in found.remarks if "startingDeadlineSeconds" in remark.what]
    assert len(told) == (window is None)
