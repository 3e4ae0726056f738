"""What differs between two specs is told field by field, and nothing that differs is left out."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.job import Cron, Every, JobSpec, Tier
from waterclock.model.spec_diff import CHANGES_MAX, Change, spec_diff
from waterclock.model.timing import CalendarUse, Timing

SPEC = JobSpec("demo.ping", Cron("0 9 * * *"), Tier.HIGH, payload=b'{"a":{"b":1},"c":[1,2]}')
payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab~/", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=12,
)
specs = st.builds(
    lambda payload, tier, us: JobSpec("x", Every(us * 1_000_000), tier, payload=json.dumps(payload).encode()),
    payloads,
    st.sampled_from(Tier),
    st.integers(1, 3),
)


def told(before: JobSpec, after: JobSpec) -> list[Change]:
    return list(spec_diff(before, after).changes)


def test_the_same_spec_differs_in_nothing() -> None:
    assert spec_diff(SPEC, SPEC) == ((), True)


def test_another_version_of_a_calendar_is_told_though_the_document_names_it_alike() -> None:
    before, after = (
        replace(SPEC, timing=Timing(calendars=(CalendarUse("holidays", version, text),)))
        for version, text in ((1, "one"), (2, "other"))
    )
    assert told(before, after) == [Change("/calendar_versions/holidays", "changed", 1, 2)]


def test_a_field_is_named_by_its_place_with_both_values() -> None:
    after = replace(SPEC, schedule=Cron("5 9 * * *"), payload=b'{"a":{"b":2},"c":[2,1]}')

    assert told(SPEC, after) == [
        Change("/cron", "changed", "0 9 * * *", "5 9 * * *"),
        Change("/payload/a/b", "changed", 1, 2),
        Change("/payload/c", "changed", [1, 2], [2, 1]),
    ]


def test_what_comes_and_what_goes_is_told_as_that() -> None:
    after = replace(SPEC, schedule=Every(5_000_000), policy=FailurePolicy(max_attempts=1))
    kinds = {change.field: change.kind for change in told(SPEC, after)}

    assert kinds["/cron"] == kinds["/zone"] == "removed"
    assert kinds["/every"] == kinds["/retry"] == "added"


def test_one_and_true_are_not_the_same() -> None:
    before, after = replace(SPEC, payload=b'{"a":[1]}'), replace(SPEC, payload=b'{"a":[true]}')

    assert told(before, after) == [Change("/payload/a", "changed", [1], [True])]


def test_there_is_a_bound_and_it_is_told() -> None:
    many = json.dumps({f"k{number:04}": number for number in range(CHANGES_MAX + 1)}, separators=(",", ":")).encode()
    found = spec_diff(replace(SPEC, payload=b"{}"), replace(SPEC, payload=many))

    assert (len(found.changes), found.is_whole) == (CHANGES_MAX, False)


@settings(deadline=None)
@given(before=specs, after=specs)
def test_specs_without_a_difference_are_equal_and_the_way_back_is_told_alike(before: JobSpec, after: JobSpec) -> None:
    there, back = told(before, after), told(after, before)

    assert [(each.field, each.before, each.after) for each in there] == [
        (each.field, each.after, each.before) for each in back
    ]
    if json.loads(before.payload) != json.loads(after.payload) or before.tier != after.tier:
        assert there
    if before == after:
        assert not there
