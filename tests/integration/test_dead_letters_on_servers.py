"""Cancels and dead letters from the command line, over real role processes on real servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance import dumps
from tests.integration.test_run_logs_on_servers import Stack, stack
from tests.oracle.records import decode

pytestmark = pytest.mark.servers

__all__ = ["stack"]  # the fixture: roles of its own for this module

_WITHIN_S = 40.0


def one(stack: Stack, *words: str) -> dict[str, Any]:
    """The one document that a command prints."""
    code, documents, said = stack.command(*words)
    assert code == 0, said
    (document,) = documents
    return document


def until(look: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + _WITHIN_S
    while time.monotonic() < give_up_at:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {_WITHIN_S} s")


def shown(stack: Stack, run: str) -> dict[str, Any]:
    code, documents, _ = stack.command("run", "show", run)
    return documents[0] if code == 0 else {"status": "not seen"}


def events_of(stack: Stack, run: str) -> list[str]:
    decoded = (decode(record["value"])[1] for record in dumps.dump(stack.bootstrap, stack.names.run_events))
    return [event["kind"] for event in decoded if event["run_id"] == run]


def test_a_run_that_runs_is_cancelled_from_the_command_line(stack: Stack) -> None:
    run = stack.run_of("long", {"handler": "demo.sleep", "payload": 300})
    until(lambda: shown(stack, run)["status"] == "RUNNING")

    assert one(stack, "run", "cancel", run, "--note", "not needed")["requested"] == 1

    card = until(lambda: (card := shown(stack, run))["status"] == "CANCELLED" and card)
    assert (card["outcome"], card["reason"]) == ("cancelled", "not needed")
    assert events_of(stack, run) == ["PENDING", "STARTED", "CANCEL_REQUESTED", "ATTEMPT_CANCELLED"]
    told = [decode(record["value"])[1] for record in dumps.dump(stack.bootstrap, stack.names.control)]
    assert [(each["kind"], each["run_id"]) for each in told] == [("CANCEL_REQUESTED", run)]


def test_a_letter_is_listed_shown_redriven_and_put_away(stack: Stack) -> None:
    run = stack.run_of("bad", {"handler": "demo.fail", "payload": {"row": 7}, "retry": {"max_attempts": 1}})
    until(lambda: stack.command("dlq", "list", "--job", "bad")[1])

    letter = one(stack, "dlq", "show", run)
    assert (letter["state"], letter["attempts"], letter["payload"]) == ("open", 1, '{"row":7}')
    assert one(stack, "dlq", "list", "--job", "bad", "--group")["letters"] == 1

    (again,) = one(stack, "dlq", "redrive", "--job", "bad", "--payload", '{"row":8}', "--yes")["runs"]
    card = until(lambda: (card := shown(stack, again))["status"] == "FAILED" and card)
    assert (card["linked_run"], card["made_by"], card["attempt"]) == (run, "redrive", 1)
    assert until(lambda: one(stack, "dlq", "show", run)["redriven_as"]) == again

    second = until(lambda: (found := one(stack, "dlq", "show", again)).get("payload") and found)
    assert (second["payload"], second["redrives"]) == ('{"row":8}', 1)
    assert one(stack, "dlq", "discard", again)["done"] == 1
    until(lambda: one(stack, "dlq", "show", again)["state"] == "discarded")
    assert stack.command("dlq", "list", "--job", "bad")[1] == []
