"""What the API says of itself is what it does, and is what is committed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.api_world import ApiWorld
from waterclock.api import shapes
from waterclock.api.changes import changed
from waterclock.model.document import _KEYS

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def described() -> dict[str, Any]:
    world = ApiWorld()
    document: dict[str, Any] = world.client.app.openapi()  # type: ignore[attr-defined]
    return document


def test_the_committed_description_is_that_of_the_code() -> None:
    """After a change on purpose: WATERCLOCK_WRITE_OPENAPI=1 pytest tests/unit/test_api_shape.py."""
    text = orjson.dumps(described(), option=orjson.OPT_INDENT_2).decode() + "\n"
    if os.environ.get("WATERCLOCK_WRITE_OPENAPI"):
        COMMITTED.write_text(text, encoding="utf-8")
    assert COMMITTED.read_text(encoding="utf-8") == text, "docs/openapi.json has drifted: see this test's docstring"


def test_every_key_of_a_job_document_is_described_and_no_other() -> None:
    assert set(shapes.JobDefinition.model_fields) == {*_KEYS, "name"}


def test_every_route_is_described_with_its_problems() -> None:
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            if path in ("/healthz", "/readyz"):
                continue
            assert {"400", "401", "403", "429", "503"} <= set(answers), f"{method} {path}"
            assert operation["security"] == [{"key": []}]
            assert operation["summary"]


CRON = {"handler": "a", "cron": "0 9 * * *", "zone": "UTC", "seconds": False, "gap": "auto", "fold": "auto"}


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"http": {"url": "u", "headers": {"x": "1"}}}, {"http": {"headers": {"y": "2"}}},
         {"http": {"url": "u", "headers": {"x": "1", "y": "2"}}}),
        (CRON, {"every": "5m"}, {"handler": "a", "every": "5m"}),
        (CRON, {"cron": "0 8 * * *"}, {**CRON, "cron": "0 8 * * *"}),
        (CRON, {"callback_url": "https://x.example"},
         {**{k: v for k, v in CRON.items() if k != "handler"}, "callback_url": "https://x.example"}),
        ({"payload": {"a": 1}}, {"payload_base64": "AA=="}, {"payload_base64": "AA=="}),
        ({"tier": "low"}, {"priority": "HIGH"}, {"priority": "HIGH"}),
        ({"payload": {"a": 1, "b": 2}}, {"payload": {"a": None}}, {"payload": {"b": 2}}),
        ({"payload": {"a": 1}}, {"payload": [1]}, {"payload": [1]}),
        ({"every": "5m"}, {}, {"every": "5m"}),
    ],
)  # fmt: skip
def test_a_patch_says_what_changes(document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert changed(document, patch) == result


def test_the_page_of_the_description_quotes_nothing_unescaped() -> None:
    world = ApiWorld()
    with world:
        page = world.client.get("/docs").text
    assert "<script" not in page
    assert "POST /api/v1/jobs" in page
