"""Marks of a preview against brute force, over any text of the grammar around clock changes of odd zones."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import brute_preview, zone_histories
from tests.property.test_cron_time_oracle import ODD_ZONES, POLICIES, TEXTS, compiled
from waterclock.model.cron_words import in_words
from waterclock.model.ids import US_PER_MINUTE
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.preview import Row, preview_cron

COUNT = 12
DAYS = 15
CHANGES = dict(zone_histories.histories(ODD_ZONES, 2015, 2030))
YEAR_2020 = 26_297_280
"""Minutes since the epoch: for zones whose clocks do not change then."""


def told(row: Row) -> list[tuple[object, ...]]:
    """A row as brute force tells it: gaps of which nothing fires first, then the fire."""
    said = [(mark.kind.value, mark.nominal_from, mark.nominal_to, mark.times) for mark in row.marks]
    minute = row.fire_time // US_PER_MINUTE
    offset = (row.local.utcoffset() or timedelta()) // timedelta(minutes=1)
    skipped = [(None, mark[1], None, [mark]) for mark in said if mark[0] == "skipped"]
    rest = [mark for mark in said if mark[0] != "skipped"]
    return [*skipped, (minute, row.local.replace(tzinfo=None, fold=0), offset, rest)]


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.sampled_from(sorted(CHANGES)), st.integers(0, 40), st.sampled_from(POLICIES), st.integers(0, 2_000))
def test_rows_and_marks_agree_with_brute_force(
    text: str, zone: str, number: int, policy: tuple[Gap, Fold], lead: int
) -> None:
    changes = CHANGES[zone] or [YEAR_2020]
    after = changes[number % len(changes)] - lead
    spec = compiled(Cron(text, zone, gap=policy[0], fold=policy[1]))
    assert in_words(spec)
    rows = preview_cron(Cron(text, zone, gap=policy[0], fold=policy[1]), after * US_PER_MINUTE, COUNT).rows
    judged = list(brute_preview.rows(text.lower(), zone, after, COUNT, policy[0].value, policy[1].value, DAYS))
    product = [line for row in rows for line in told(row)]
    # The judge looks at some days only; a gap at their end belongs to a row that it does not see.
    assert product[: len(judged)] == judged
    assert len(judged) == len(product) or rows[-1].fire_time >= (after + (DAYS - 1) * 1_440) * US_PER_MINUTE
