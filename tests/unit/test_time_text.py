"""Time as people write it: an instant is read only where it has a text, and written whatever it is."""

from __future__ import annotations

import pytest

from waterclock.model.errors import RequestError
from waterclock.model.time_text import format_rfc3339, parse_rfc3339

_EDGES = ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z")


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+14:00"]
)
def test_an_offset_that_leaves_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_rfc3339(text, "/to")
    assert refused.value.pointer == "/to"


@pytest.mark.parametrize("text", _EDGES)
def test_what_is_read_is_written_alike(text: str) -> None:
    assert format_rfc3339(parse_rfc3339(text)) == text


@pytest.mark.parametrize("at", [parse_rfc3339(_EDGES[0]) - 1, parse_rfc3339(_EDGES[-1]) + 1, -(2**63), 2**63 - 1])
def test_an_instant_that_no_calendar_names_is_told_as_its_number(at: int) -> None:
    assert format_rfc3339(at) == str(at)
