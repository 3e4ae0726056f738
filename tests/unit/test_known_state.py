"""What the maker of a work record knew of its run travels as text, and comes back as it was."""

from __future__ import annotations

import pytest

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.reduce import RunState

STATES = [
    None,
    RunState(RunStatus.PENDING),
    RunState(RunStatus.RETRYING, 2, Outcome.LOST, "worker-1", 7, 4_294_967_297),
    RunState(RunStatus.RUNNING, 1, Outcome.NONE, 'a "name"', 0, 3, cancel_requested=True),
    RunState(RunStatus.RUNNING, is_dag=True, expired=True),
]


@pytest.mark.parametrize("state", STATES)
def test_a_known_state_comes_back_as_it_was(state: RunState | None) -> None:
    assert state_from_text(state_to_text(state)) == state


def test_the_text_of_a_known_state_is_a_format() -> None:
    assert state_to_text(STATES[2]) == '[2,2,4,"worker-1",7,4294967297,false,false]'


def test_a_field_of_a_later_release_is_dropped() -> None:
    assert state_from_text('[0,0,0,"",0,0,false,false,false,false,false,"later"]') == STATES[1]


@pytest.mark.parametrize("text", ["{}", "[]", "7", "[99,0,0]", "nonsense"])
def test_what_is_no_state_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        state_from_text(text)
