"""Jobs that other jobs start, from the command line, over real role processes on real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.acceptance import dumps
from tests.acceptance.real_stack import RoleProcess
from tests.integration.test_dead_letters_on_servers import one, shown, until
from tests.integration.test_run_logs_on_servers import Stack, stack
from tests.oracle import triggers
from tests.oracle.records import decode
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicSpec

pytestmark = pytest.mark.servers

__all__ = ["stack"]  # the fixture: roles of its own for this module


def test_an_end_starts_the_job_that_waits_for_it_and_the_run_says_so(stack: Stack) -> None:
    saved = one(stack, "job", "create", "report", "--handler", "demo.echo", "--on-job", "load")
    assert saved["on"] == {"any": [{"job": "load", "ended": "succeeded"}]}
    one(stack, "job", "create", "clean-up", "--handler", "demo.echo", "--on-job", "load:failed")
    source = stack.run_of("load", {"handler": "demo.echo", "payload": 1})

    (run,) = until(lambda: [row["run"] for row in stack.command("run", "list", "report")[1]])
    card = until(lambda: (card := shown(stack, run))["status"] == "SUCCEEDED" and card)
    assert (card["triggered_by"], card["made_by"]) == (source, "trigger")
    assert stack.command("run", "list", "clean-up")[1] == []

    told = [decode(record["value"])[1] for record in dumps.dump(stack.bootstrap, stack.names.commands)]
    assert [(each["job_id"], each["hops"]) for each in told if each["triggered_by"]] == [("default:report", 1)]


def ended(stack: Stack, run: str) -> dict[str, Any] | None:
    card = shown(stack, run)
    return card if card["status"] == "SUCCEEDED" else None


@pytest.fixture
def sources(stack: Stack) -> Iterator[str]:
    """An intake that hears of a topic of somebody else's, which stands there already."""
    topic = f"{stack.names.prefix}-shop.orders"
    ensure_topics(stack.bootstrap, [TopicSpec(topic, 2, {})])
    heard = {"WATERCLOCK_INTAKE__SOURCES": json.dumps({topic: ["default"]})}
    stack.env |= heard
    role = RoleProcess("intake", "intake-1", stack.env, stack.folder / "intake.log", stack.folder / "intake.ready")
    role.start()
    role.wait_ready()
    yield topic
    role.stop()


def test_a_record_on_a_topic_starts_the_job_that_waits_for_such_with_its_value(stack: Stack, sources: str) -> None:
    file = stack.folder / "ship.json"
    on = {"any": [{"topic": sources, "headers": {"type": "placed"}}]}
    file.write_text(json.dumps({"handler": "demo.echo", "on": on}))
    assert one(stack, "job", "create", "ship", "--file", str(file))["on"] == on
    file.write_text(json.dumps({"handler": "demo.echo", "on": {"any": [{"topic": "elsewhere"}]}}))
    code, _, said = stack.command("job", "create", "lost", "--file", str(file))
    assert (code != 0, "intake.sources" in said) == (True, True)
    producer = Producer({"bootstrap.servers": stack.bootstrap})
    for kind in ("placed", "returned", "placed"):
        producer.produce(sources, b'{"order": 1}', key=b"k", headers={"type": kind})
    assert producer.flush(20) == 0

    rows = until(lambda: (rows := stack.command("run", "list", "ship")[1]) and len(rows) == 2 and rows)
    cards = [until(partial(ended, stack, row["run"])) for row in rows]
    assert {card["triggered_by"].rpartition("/")[0].rpartition("/")[0] for card in cards} == {sources}
    told = [decode(record["value"])[1] for record in dumps.dump(stack.bootstrap, stack.names.commands)]
    found = [each for each in told if each["triggered_by"].startswith(sources)]
    assert [(each["job_id"], each["payload"]) for each in found] == [("default:ship", b'{"order": 1}')] * 2
    assert all(each["command_id"].startswith("record/") for each in found)


def test_a_record_and_an_end_within_a_window_start_a_job_once_with_its_own_payload(stack: Stack, sources: str) -> None:
    stack.run_of("stock", {"handler": "demo.echo", "payload": 1})
    file = stack.folder / "counted.json"
    both = {
        "all": [{"job": "stock", "ended": "succeeded"}, {"topic": sources, "headers": {"type": "placed"}}],
        "within": "1m",
    }
    file.write_text(json.dumps({"handler": "demo.echo", "payload": "own", "on": both}))
    assert one(stack, "job", "create", "counted", "--file", str(file))["on"] == both
    one(stack, "job", "trigger", "stock")
    producer = Producer({"bootstrap.servers": stack.bootstrap})
    for kind in ("returned", "placed"):
        producer.produce(sources, b'{"order": 2}', key=b"k", headers={"type": kind, "trace": b"\xff"})
    assert producer.flush(20) == 0

    (row,) = until(lambda: stack.command("run", "list", "counted")[1])
    card = until(partial(ended, stack, row["run"]))
    assert card["triggered_by"].startswith((f"{sources}/", "default:stock@"))
    assert card["result"] == "own"
    told = [decode(record["value"])[1] for record in dumps.dump(stack.bootstrap, stack.names.commands)]
    (asked,) = (
        each for each in told if each["job_id"] == "default:counted" and each["triggered_by"].startswith(sources)
    )
    assert (asked["gathers"], asked["headers"]) == (True, [{"name": "type", "text": "placed"}])


def test_two_ends_within_a_window_start_a_job_once_and_one_alone_lapses_and_is_told(stack: Stack) -> None:
    for name in ("orders", "items"):
        stack.run_of(name, {"handler": "demo.echo", "payload": 1})
    topics = [list(dumps.dump(stack.bootstrap, topic)) for topic in (stack.names.commands, stack.names.run_events)]
    before = triggers.check(*topics)[1]
    file = stack.folder / "joined.json"
    both = {"all": [{"job": "orders"}, {"job": "items"}], "within": "20s"}
    file.write_text(json.dumps({"handler": "demo.echo", "on": both}))
    assert one(stack, "job", "create", "joined", "--file", str(file))["on"]["within"] == "20s"
    one(stack, "job", "trigger", "orders")
    one(stack, "job", "trigger", "items")

    def seen(status: str) -> list[dict[str, Any]]:
        rows = stack.command("run", "list", "joined")[1]
        return [card for card in (shown(stack, row["run"]) for row in rows) if card["status"] == status]

    (made,) = until(lambda: seen("SUCCEEDED"))
    assert made["triggered_by"].partition("@")[0] in ("default:orders", "default:items")
    one(stack, "job", "trigger", "orders")
    (lapsed,) = until(lambda: seen("SKIPPED"))
    assert lapsed["reason"] == "window: items"
    assert len(seen("SUCCEEDED")) == 1

    topics = [list(dumps.dump(stack.bootstrap, topic)) for topic in (stack.names.commands, stack.names.run_events)]
    complaints, counts = triggers.check(*topics)
    runs = counts["runs of windows"] - before["runs of windows"]
    assert (complaints, runs, counts["windows that lapsed"]) == ([], 1, 1)
