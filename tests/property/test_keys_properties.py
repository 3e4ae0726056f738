"""Forgetting what is over, and starting again from the state topic, never changes what counts as a repeat."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from waterclock.dispatcher import keys
from waterclock.dispatcher.commands import Place
from waterclock.dispatcher.keys import Keys, is_repeat

from waterclock.model.role_state import KeyState
from waterclock.wire import codec
from waterclock.wire.messages import key_of_state

WITHIN, OFFSETS, SLICE, GRACE = 100, 8, 2, 5

steps = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]),  # which intention
        st.booleans(),  # under a key, or by its id
        st.integers(1, 3),  # offsets on
        st.integers(0, 40),  # microseconds on
        st.booleans(),  # the shard is taken over before it
        st.sampled_from([0, 0, 0, 3, 50, 1_000]),  # how far the broker's clock is ahead
    ),
    max_size=60,
)


def state(name: str, is_given: bool, place: Place) -> KeyState:
    key, command_id = (name, f"c{place.offset}") if is_given else ("", name)
    return KeyState("t:j", key, b"", command_id, place.offset, 0, "", place.appended_at)


@given(steps)
def test_what_is_a_repeat_follows_from_stamps_and_offsets_alone(
    script: list[tuple[str, bool, int, int, bool, int]],
) -> None:
    bounds = {"WITHIN_US": WITHIN, "ID_OFFSETS": OFFSETS, "EXPIRE_SLICE": SLICE, "_GRACE_US": GRACE}
    with mock.patch.multiple(keys, **bounds):
        kept, topic = Keys(), {}
        served: dict[str, tuple[int, int]] = {}
        offset = clock = 0
        for name, is_given, further, later, taken_over, ahead in script:
            offset, clock = offset + further, clock + later
            at = clock + ahead
            place = Place(1, 0, offset, at)
            if taken_over:
                kept = Keys()
                for state_key, value in topic.items():
                    kept.keep(state_key, value)
            now = state(name, is_given, place)
            state_key = key_of_state("t:j", now.key, now.command_id)
            kept.expire(offset, at, clock)
            for gone in kept.forgotten:
                del topic[gone]
            kept.forgotten.clear()

            first = kept.get(state_key)
            said = first is not None and is_repeat(first, place)

            before = served.get(state_key)
            meant = before is not None and at - before[1] <= WITHIN and (is_given or offset - before[0] <= OFFSETS)
            assert said == meant
            if not meant:
                served[state_key] = (offset, at)
                topic.pop(state_key, None)  # a compacted topic holds the newest, in the order of writing
                topic[state_key] = codec.encode_key_state(now)
                kept.keep(state_key, topic[state_key])
            assert len(kept) == len(topic) <= len(served)


@given(st.integers(0, 50), st.integers(0, 50), st.booleans())
def test_a_command_is_never_its_own_repeat_nor_that_of_a_later_one(
    first: int,
    then: int,
    is_given: bool,
) -> None:
    known = state("a", is_given, Place(1, 0, first, 0))
    assert is_repeat(known, Place(1, 0, then, 0)) == (then > first)
