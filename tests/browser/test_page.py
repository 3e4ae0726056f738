"""The page in a real chromium, on the real API and a real stack: live, readable, and nobody's names run in it.

The promises are in the ``*.test.js`` beside this file, run by Node's own test runner with playwright-core and axe-core
(``npm ci`` in this folder fetches both). A browser is not everywhere: where none is found the tests skip and say so,
also in CI; Debian has one: ``apt install chromium``. ``CHROMIUM`` names another.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from tests.acceptance.real_stack import RoleProcess
from tests.conftest import Running
from tests.free_ports import free_port
from waterclock.api.keys import new_key
from waterclock.clock import SystemClock
from waterclock.log.kafka_topics import ensure_topics
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import Tier
from waterclock.settings import CassandraSettings, Settings
from waterclock.store.migrate import migrate
from waterclock.store.opening import open_store
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names, topic_specs

HERE = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROLES = {"dispatcher-1": "dispatcher", "worker-1": "workers", "api-1": "api"}
GENERATION = 1
_NODE_S = 180.0
_NPM_S = 120.0
_FLUSH_S = 10.0

# The first ten, which have slashes, are the errors that are shown: a slash in a run id would name the node of a Dag.
HOSTILE = (
    "<script>window.fired=1</script>",
    "<svg><script>window.fired=1</script></svg>",
    "<iframe src=javascript:parent.fired=1></iframe>",
    "<a href=javascript:window.fired=1>click</a>",
    '"><script>window.fired=1</script>',
    "</td></tr></table><script>window.fired=1</script>",
    "</script><script>window.fired=1</script>",
    "<video><source onerror=window.fired=1></video>",
    "<style>@import '//elsewhere.example/x.css'</style>",
    "<link rel=stylesheet href=//elsewhere.example/x.css>",
    "<base href=//elsewhere.example/>",
    "<img src=x onerror=window.fired=1>",
    "<svg onload=window.fired=1>",
    "javascript:window.fired=1",
    "'><img src=x onerror=window.fired=1>",
    "<body onload=window.fired=1>",
    "<input autofocus onfocus=window.fired=1>",
    "<details open ontoggle=window.fired=1>",
    "<math><mtext><style><img src=x onerror=window.fired=1>",
    "${window.fired=1}{{window.fired=1}}",
)
NAMES = tuple(text.replace("/", "\\") for text in HOSTILE)


@pytest.fixture(scope="module")
def chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"NOT TESTED, no browser: none of {', '.join(BROWSERS)} is installed (apt install chromium)")
    return found


@pytest.fixture(scope="module")
def driven(chromium: str) -> Mapping[str, str]:
    """The environment of Node; its packages are there."""
    kept, wanted = HERE / "node_modules" / ".package-lock.json", HERE / "package-lock.json"
    if not kept.exists() or kept.stat().st_mtime < wanted.stat().st_mtime:
        subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=HERE, check=True, capture_output=True, timeout=_NPM_S)
        kept.touch()
    return {**os.environ, "CHROMIUM": chromium, "NAMES": json.dumps(NAMES), "ERRORS": json.dumps(HOSTILE[:10])}


class Stack:
    """The roles that the page needs, on the servers of this session."""

    def __init__(self, kafka: Running, cassandra: Running, prefix: str, keyspace: str, folder: Path) -> None:
        self.names = Names(prefix)
        self.kafka = kafka
        self.settings = Settings(
            cassandra=CassandraSettings(contact_points=(cassandra.host,), port=cassandra.port, keyspace=keyspace)
        )
        ensure_topics(kafka.address, topic_specs(self.names, 4))
        migrate([cassandra.host], cassandra.port, keyspace, SystemClock(), replication=1)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        env = {
            "WATERCLOCK_KAFKA__BOOTSTRAP": kafka.address,
            "WATERCLOCK_KAFKA__PREFIX": prefix,
            "WATERCLOCK_CASSANDRA__CONTACT_POINTS": cassandra.host,
            "WATERCLOCK_CASSANDRA__PORT": str(cassandra.port),
            "WATERCLOCK_CASSANDRA__KEYSPACE": keyspace,
            "WATERCLOCK_API__PORT": str(port),
            "WATERCLOCK_GENERATION": str(GENERATION),
        }
        self.roles = [
            RoleProcess(role, instance, env, folder / f"{instance}.log", folder / f"{instance}.ready")
            for instance, role in ROLES.items()
        ]

    def start(self) -> None:
        for role in self.roles:
            role.start()
        for role in self.roles:
            role.wait_ready()

    def stop(self) -> None:
        for role in self.roles:
            if role.process is not None:
                role.stop()

    def key(self, tenant: str) -> str:
        token, kept = new_key(tenant, "read", SystemClock().now())
        store = open_store(self.settings)
        try:
            store.put_key(kept)
        finally:
            store.close()
        return token


@pytest.fixture(scope="module")
def stack(
    driven: Mapping[str, str],
    kafka_server: Running,
    cassandra_server: Running,
    fresh_prefix: str,
    fresh_keyspace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    stack = Stack(kafka_server, cassandra_server, fresh_prefix, fresh_keyspace, tmp_path_factory.mktemp("page"))
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


def write_hostile_runs(stack: Stack) -> None:
    """A failed run for each hostile text: its name, and the error of another one. No door lets such a name in."""
    producer = Producer({"bootstrap.servers": stack.kafka.address, "log_level": 0})
    worker = {"attempt": 1, "worker": "w", "incarnation": 1}

    def say(kind: EventKind, run_id: str, **parts: object) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, SystemClock().now())._replace(**parts)
        message = event_message(stack.names, event)
        reports: list[Message] = []
        producer.produce(
            message.topic,
            message.value,
            message.key,
            partition=0,
            headers=list(message.headers),
            on_delivery=lambda _, report: reports.append(report),
        )
        producer.flush(_FLUSH_S)
        offset = reports[0].offset()
        assert offset is not None
        return offset

    for number, name in enumerate(NAMES):
        run_id, at = f"default:{name}@20261121T090000Z", SystemClock().now() - US_PER_S
        say(EventKind.PENDING, run_id, detail=Pending(9, at, at, Tier.LOW, Origin.SCHEDULE))
        token = ordinal(GENERATION, say(EventKind.STARTED, run_id, detail=Started("t", 0, 1), **worker))
        error = Ended(at, error_message=HOSTILE[(number + 10) % len(HOSTILE)])
        say(EventKind.ATTEMPT_FAILED, run_id, token=token, detail=error, **worker)
        say(EventKind.RUN_FAILED, run_id, attempt=1, reason="x")


def run_node(stack: Stack, driven: Mapping[str, str], name: str, **more: str) -> None:
    done = subprocess.run(
        ["node", "--test", "--test-reporter=spec", name],
        cwd=HERE,
        env={**driven, "PAGE_URL": stack.url, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_NODE_S,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout[-8_000:]}"


@pytest.mark.servers
class TestPage:
    """In this order: the stack is empty, then runs, then asks for keys."""

    def test_an_empty_page_says_what_to_do(self, stack: Stack, driven: Mapping[str, str]) -> None:
        run_node(stack, driven, "empty.test.js")

    def test_runs_appear_live_and_hostile_names_stay_text(self, stack: Stack, driven: Mapping[str, str]) -> None:
        write_hostile_runs(stack)
        run_node(stack, driven, "live.test.js")

    def test_with_keys_the_page_asks_for_one(self, stack: Stack, driven: Mapping[str, str]) -> None:
        keys = {"KEY": stack.key("default"), "OTHER_KEY": stack.key("other")}
        run_node(stack, driven, "key.test.js", **keys)
