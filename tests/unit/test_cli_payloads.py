"""JSON at the command line arrives as it stands there, or is refused: nothing is read as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.commands.documents import read_document
from waterclock.commands.job_options import exact_json, json_or_text, payload_bytes
from waterclock.model.errors import RequestError

CHANGED = [
    '{"a": NaN}',
    "[1e999]",
    "Infinity",
    '{"order": 123456789012345678901234567890}',
    '{"a": 1, "a": 2}',
    '"\\ud800"',
]
"""What one reader takes for null, infinity, a rounded number or the last of two."""


@pytest.mark.parametrize("text", CHANGED)
def test_what_would_become_something_else_is_refused(text: str) -> None:
    for read in (json_or_text, payload_bytes, exact_json):
        with pytest.raises(RequestError) as refused:
            read(text)
        assert (refused.value.pointer, bool(refused.value.hint)) == ("/payload", True)


def test_what_is_json_is_taken_exactly_and_the_rest_is_text() -> None:
    assert json_or_text('{"order": 9007199254740993, "x": 0.1}') == {"order": 9007199254740993, "x": 0.1}
    assert (json_or_text("day 7"), payload_bytes("day 7"), payload_bytes(None)) == ("day 7", b'"day 7"', None)
    assert payload_bytes('{"a": 1}') == b'{"a":1}'


def test_bytes_that_are_no_text_are_refused_in_words() -> None:
    with pytest.raises(RequestError, match="not JSON"):
        payload_bytes(b"\xff".decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    "text",
    [
        *(f'{{"payload": {payload}}}' for payload in CHANGED),
        '{"payload": 1, "payload": 2}',
        "payload: .nan",
        "payload: [-.inf]",
    ],
)
def test_a_document_in_a_file_is_read_as_exactly(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(RequestError, match=r"job\.yaml") as refused:
        read_document(file)
    assert refused.value.hint
