"""The short form of every acceptance check: few kills, no figure judged. Whole: ``make show NAME=...``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.short_forms import WITHIN_S, ShortForms, what_is_missing
from tests.minutes import TOOK


@pytest.mark.servers
@pytest.mark.parametrize("short_form", WITHIN_S)
def test_short_form_shows_it(
    short_form: str, short_forms: ShortForms, record_property: Callable[[str, object], None]
) -> None:
    if missing := what_is_missing(short_form):
        pytest.skip(missing)
    done = short_forms.end_of(short_form)
    record_property(TOOK, (done.seconds, done.core_seconds))
    assert done.code == 0, f"{short_form} ended with {done.code}:\n{done.said[-8_000:]}"
