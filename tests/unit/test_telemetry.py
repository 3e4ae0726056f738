"""Log lines: whatever user code puts into one, it is written, and the process goes on."""

from __future__ import annotations

import dataclasses
import json

import pytest
from structlog.processors import JSONRenderer

from waterclock.telemetry import _to_json, _without_secrets


@dataclasses.dataclass(slots=True)
class Order:
    number: int = dataclasses.field(init=False)


class Odd:
    def __repr__(self) -> str:
        raise ValueError


def test_a_field_that_cannot_be_read_is_told_of_and_the_others_are_written() -> None:
    """An encoder that asks such values itself takes the process down (orjson 3.13)."""
    fields = {"event": "x", "order": Order(), "odd": Odd(), "count": 1, "things": [object()], 5: {1: 2}}
    line = json.loads(JSONRenderer(serializer=_to_json)(None, "info", fields))
    assert line["order"] == "unreadable: AttributeError"
    assert line["odd"] == "unreadable: ValueError"
    assert (line["event"], line["count"], line["5"]) == ("x", 1, {"1": 2})
    assert line["things"].startswith("[<object")


def test_a_line_is_written_whatever_its_fields_are_called() -> None:
    line = json.loads(JSONRenderer(serializer=_to_json)(None, "info", {"event": "x", "half\ud800": 1}))
    assert (line["event"], line["half?"]) == ("x", 1)


@pytest.mark.parametrize(
    "name", ["password", "db_passwd", "api_key", "STRIPE_APIKEY", "token", "access_token", "apiToken"]
)
def test_what_is_called_a_secret_is_not_written(name: str) -> None:
    assert _without_secrets(None, "info", {name: "hush"}) == {name: "[hidden]"}


@pytest.mark.parametrize("name", ["token_count", "max_tokens", "key", "pass", "fencing_token"])
def test_what_only_looks_a_little_like_one_is_written(name: str) -> None:
    assert _without_secrets(None, "info", {name: 5}) == {name: 5}
