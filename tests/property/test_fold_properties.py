"""Properties of the fold: whoever takes over knows what its predecessor knew, wherever it begins to read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.model.events import RunEvent
from waterclock.model.fold import Fold
from waterclock.model.reduce import RunState

from .test_reduce_properties import DRAFTS, RUN, EventKind, make_stream


def folded(stream: list[RunEvent]) -> Fold[object]:
    fold: Fold[object] = Fold()
    for offset, event in enumerate(stream):
        fold.apply(event, offset)
    return fold


@given(DRAFTS, st.data())
@settings(max_examples=600)
def test_a_kept_run_and_what_is_read_again_from_anywhere_below_come_to_what_the_log_says(
    drafts: list[tuple[EventKind, int, str, bool]], data: st.DataObject
) -> None:
    stream = make_stream(drafts)
    kept_at = data.draw(st.integers(1, len(stream)))
    before = folded(stream[:kept_at])
    if RUN not in before.open:
        return
    kept: RunState = before.open[RUN].state
    successor: Fold[object] = Fold()
    successor.restore(RUN, kept, before.open[RUN].first_offset, None, folded_to=before.position)
    for offset in range(data.draw(st.integers(0, kept_at)), len(stream)):
        successor.apply(stream[offset], offset)
    assert successor.state(RUN) == folded(stream).state(RUN)
