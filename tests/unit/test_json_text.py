"""JSON from strangers is capped before it is parsed, and never guessed at."""

from __future__ import annotations

import contextlib
import gc
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.errors import RequestError
from waterclock.wire.json_text import DEPTH_MAX, JSON_MAX, read_json

_leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=10)
_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))


@given(_values)
def test_what_json_can_say_is_read_as_it_was_said(value: object) -> None:
    assert read_json(json.dumps(value, ensure_ascii=False).encode(), depth=1_000) == value


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not JSON"),
        (b"\xff{}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a":1', "not JSON"),
        (b'{"a":1} {"b":2}', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":"\\ud800"}', "not JSON"),
        (b'{"a":"\x00"}', "not JSON"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "'c' is given twice"),
        (b'{"a":18446744073709551616}', "64 bits"),
        (b'{"a":' + b"9" * 5_000 + b"}", "not JSON"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "levels deep"),
        (b'{"a":' * 40_000, "levels deep"),
        (b"[" * JSON_MAX, "levels deep"),
        (b'{"a":"' + b"x" * JSON_MAX + b'"}', "bytes"),
    ],
)
def test_a_document_that_two_readers_would_read_differently_is_refused(data: bytes, word: str) -> None:
    with pytest.raises(RequestError, match=word) as refused:
        read_json(data)
    assert refused.value.hint


def test_brackets_inside_of_strings_are_no_depth() -> None:
    assert read_json(b'{"a":"' + b"[{" * 100 + b'\\"[["}') == {"a": "[{" * 100 + '"[['}


def test_exactly_the_allowed_depth_is_read() -> None:
    assert read_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)


@pytest.mark.parametrize(
    "data",
    [
        b'"' * (JSON_MAX - 1),
        b'"\\' * (JSON_MAX // 2 - 1),
        b'"' + b"\\" * (JSON_MAX - 2),
        b"[" + b"[]," * (JSON_MAX // 3 - 3) + b"0]",
        b"[1," * 30 + b"1," * (JSON_MAX // 2 - 100),
        b"{" + b",".join(b'"%d":0' % number for number in range(25_000)) + b"}",
        b"{" + b",".join(b'"%d":0' % number for number in range(25_000)) + b',"24999":0}',
    ],
)
def test_no_document_within_the_cap_takes_long(data: bytes) -> None:
    gc.freeze()  # as a role does: otherwise the collector walks all that the test session holds
    try:
        began_s = time.process_time()
        with contextlib.suppress(RequestError):
            read_json(data)
        assert time.process_time() - began_s < 0.25
    finally:
        gc.unfreeze()
