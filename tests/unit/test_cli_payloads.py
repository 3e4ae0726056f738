"""JSON at the command line arrives as it stands there, or is refused: nothing is read as something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from waterclock.commands.documents import read_document
from waterclock.commands.job_options import exact_json, json_or_text, payload_bytes
from waterclock.model.document import spec_from_document
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


TEXTS = ["9:30", "01234", "0755", "0o17", "0x1F", "1_000", "+5", "1.", ".5", "2026-12-25", "no", "On", "nULL"]
"""What YAML 1.1, or 1.2, takes for a number, a date, a flag or nothing, and JSON does not."""


def yaml_of(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    return read_document(file)


@pytest.mark.parametrize("word", TEXTS)
def test_what_json_would_not_take_for_a_value_is_a_text_in_yaml(tmp_path: Path, word: str) -> None:
    assert yaml_of(tmp_path, f"payload: {{is: {word}, all: [{word}]}}") == {"payload": {"is": word, "all": [word]}}


@pytest.mark.parametrize("word", ["0", "-0", "17", "-17", "1.5", "-1.5e3", "12E+03", "1e-9", "true", "false", "null"])
def test_what_is_a_value_of_json_is_the_same_in_yaml(tmp_path: Path, word: str) -> None:
    found = yaml_of(tmp_path, f"payload: {word}")["payload"]
    assert (found, type(found)) == (json.loads(word), type(json.loads(word)))
    assert yaml_of(tmp_path, f'payload: ["{word}"]') == {"payload": [word]}


def test_nothing_and_a_tilde_are_null_in_yaml(tmp_path: Path) -> None:
    assert yaml_of(tmp_path, "payload:\nzone: ~\n") == {"payload": None, "zone": None}


FLAGS = {"True": True, "TRUE": True, "False": False, "FALSE": False, "Null": None, "NULL": None}


@pytest.mark.parametrize(("word", "value"), FLAGS.items())
def test_a_capital_makes_no_text_of_a_flag_or_of_nothing_in_yaml(tmp_path: Path, word: str, value: bool | None) -> None:
    assert yaml_of(tmp_path, f"payload: {word}") == {"payload": value}


@pytest.mark.parametrize("key", ["on", "yes", "1", "0755", "null", "~", "=", "<<", "2026-12-25"])
def test_a_key_in_yaml_is_a_text(tmp_path: Path, key: str) -> None:
    assert yaml_of(tmp_path, f"payload: {{{key}: {{a: 1}}}}") == {"payload": {key: {"a": 1}}}


@pytest.mark.parametrize(
    "word", ["!!int 9:30", "!!bool yes", "!!binary aGk=", "!!timestamp 2026-12-25", "!!set {a}", "!!null x"]
)
def test_no_tag_brings_in_what_json_has_not(tmp_path: Path, word: str) -> None:
    with pytest.raises(RequestError, match=r"job\.yaml"):
        yaml_of(tmp_path, f"payload: {word}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("at_most_once: yes", "'yes' is not true or false"),
        ("retry: {jitter: on}", "'on' is not true or false"),
        ("retry: no", "'no' is not an object .* false, or an object"),
        ("retry: {max_attempts: 010}", "'010' is not a number .* A whole number"),
        ("max_runs: 1_000", "'1_000' is not a number .* A whole number"),
    ],
)
def test_a_text_in_the_place_of_a_number_or_a_flag_is_refused_and_told_what_to_write(
    tmp_path: Path, line: str, said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        spec_from_document(yaml_of(tmp_path, f"handler: demo.ping\nevery: 5s\n{line}\n"))


def test_an_integer_that_loses_digits_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"123456789012345678901 in line 2 .* in quotes it is a text"):
        yaml_of(tmp_path, "payload:\n  order: 123456789012345678901\n")
