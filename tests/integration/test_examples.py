"""The examples are run as they stand, on a whole stack, and what they promise is looked for in topics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.dumps import dump
from tests.acceptance.real_stack import QUICK, RealStack, wait_for
from tests.free_ports import free_port
from waterclock import Client
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicSpec
from waterclock.wire.codec import decode_event
from waterclock.wire.names import topic_specs

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.servers


class Shop:
    """A stack whose worker runs the example's handlers."""

    def __init__(self, stack: RealStack) -> None:
        self.stack = stack
        topics = [TopicSpec(name, 2, {}) for name in ("shop.shipped", "shop.reminders", "shop.orders")]
        ensure_topics(stack.bootstrap, topics)
        port = free_port()
        self.api = f"http://127.0.0.1:{port}"
        roles = [
            stack.role("intake", "intake-1"),
            stack.role("dispatcher", "dispatcher-1"),
            stack.role("workers", "worker-1", WATERCLOCK_WORKER__APP="examples.shop:app", PYTHONPATH=str(ROOT)),
            stack.role("recorder", "recorder-1"),
            stack.role("api", "api-1", WATERCLOCK_API__PORT=str(port)),
        ]
        for role in roles:
            role.wait_ready()

    def run(self, name: str, **env: str) -> str:
        """Run one example; answers what it said."""
        given = {**os.environ, "KAFKA": self.stack.bootstrap, "API": self.api, **env}
        command = [sys.executable, str(ROOT / "examples" / name)]
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def values(self, topic: str) -> list[str]:
        return [record["value"].decode() for record in dump(self.stack.bootstrap, topic)]

    def succeeded(self, job: str) -> list[str]:
        events = [decode_event(record["value"]) for record in dump(self.stack.bootstrap, self.stack.names.run_events)]
        return [e.run_id for e in events if e.kind.value == "ATTEMPT_SUCCEEDED" and e.job_id == f"default:{job}"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """On servers like those of a short form: they start for half the core seconds, and nothing is measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(QUICK, "1")
        with RealStack(tmp_path_factory.mktemp("shop") / "stack") as stack:
            yield Shop(stack)


def test_scheduling_by_kafka(shop: Shop) -> None:
    said = shop.run("schedule_by_kafka.py")
    assert "default:ship-nightly: waterclock.job-events[" in said
    assert "20 more" in said
    (run_id,) = wait_for(lambda: shop.succeeded("ship-nightly"), "the triggered run", 30)
    (shipped,) = shop.values("shop.shipped")
    assert shipped == f'{{"order":"now","run":"{run_id}"}}'


def test_an_order_and_its_reminder_both_or_neither(shop: Shop) -> None:
    shop.run("order_desk.py", REMIND_AFTER_S="2")
    wait_for(lambda: shop.succeeded("remind-a-1"), "the reminder of the order that stands", 30)
    assert shop.values("shop.reminders") == ["order a-1 is not paid yet"]
    assert shop.values("shop.orders") == ['{"order": "a-1"}']


def test_scheduling_by_http(shop: Shop) -> None:
    said = shop.run("schedule_by_http.py")
    assert "default:ship-hourly fires next at" in said
    assert "now of tier high" in said
    assert said.count("refused: ") == 2
    assert "status: paused" in said
    wait_for(lambda: shop.succeeded("ship-hourly"), "the triggered run", 30)


def test_a_pool_has_workers_of_its_own(shop: Shop) -> None:
    """Given a pool without topics, its worker ends and says so; once there are some, it does the pool's work."""
    stack, handlers = shop.stack, {"WATERCLOCK_WORKER__APP": "examples.shop:app", "PYTHONPATH": str(ROOT)}
    lost = stack.role("workers", "lost-1", WATERCLOCK_WORKER__POOL="nowhere", **handlers)
    with pytest.raises(RuntimeError, match="There is no pool 'nowhere'"):
        lost.wait_ready()
    assert lost.stop() == 2
    ensure_topics(stack.bootstrap, topic_specs(stack.names, stack.partitions, ["gpu"]))
    stack.role("workers", "gpu-1", WATERCLOCK_WORKER__POOL="gpu", **handlers).wait_ready()
    with Client.http(shop.api) as client:
        job = client.create("on-gpu", handler="shop.ship", every="1h", pool="gpu", payload={"order": 1})
        assert job["pool"] == "gpu"
        run = client.trigger("on-gpu")
        wait_for(lambda: shop.succeeded("on-gpu"), "the run on the pool", 30)
        shown = wait_for(lambda: client.run(run.run_id) if _is_over(client, run.run_id) else None, "its row", 30)
    assert shown["worker"] == "gpu-1"


def _is_over(client: Client.Http, run_id: str) -> bool:
    return client.run(run_id)["status"] == "SUCCEEDED"
