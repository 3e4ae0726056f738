"""One suite, two worlds: every case runs in memory and on a real broker, and both must pass the same cases.

``passed`` gathers what each world passed; ``test_parity.py`` runs last and compares.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from .doubt_proxy import DoubtProxy
from .kafka_world import KafkaWorld
from .memory_world import MemoryWorld
from .world import LogWorld

WORLDS = ("memory", "kafka")
PARITY = "test_parity.py"

passed_key = pytest.StashKey[dict[str, set[str]]]()


class Broker(NamedTuple):
    """The real broker, for the whole session."""

    proxy: DoubtProxy
    admin: AdminClient


@pytest.fixture(scope="session")
def broker(kafka_server: Any) -> Iterator[Broker]:
    with closing(DoubtProxy(kafka_server.host, kafka_server.port)) as proxy:
        yield Broker(proxy, AdminClient({"bootstrap.servers": kafka_server.address}))


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.servers)])
def world(request: pytest.FixtureRequest) -> Iterator[LogWorld]:
    with ExitStack() as at_end:
        if request.param == "memory":
            yield MemoryWorld(at_end)
        else:
            broker: Broker = request.getfixturevalue("broker")
            yield KafkaWorld(at_end, broker.proxy, broker.admin, f"log-{uuid.uuid4().hex[:10]}")


def case_of(item: pytest.Item) -> tuple[str, str] | None:
    """(world, case) of a test of this suite; the case is its name without the world."""
    callspec = getattr(item, "callspec", None)
    which = None if callspec is None else callspec.params.get("world")
    if which is None or "conformance/log" not in item.path.as_posix():
        return None
    parts = [part for part in item.name.partition("[")[2].rstrip("]").split("-") if part != which]
    return which, f"{item.path.name}::{item.name.partition('[')[0]}[{'-'.join(parts)}]"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[passed_key] = {name: set() for name in WORLDS}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cases on the broker ask for the server openly, so that it is started; the comparison runs last."""
    for item in items:
        if (case_of(item) or ("", ""))[0] == "kafka" and isinstance(item, pytest.Function):
            item.fixturenames = ["kafka_server", *item.fixturenames]
    items.sort(key=lambda item: item.path.name == PARITY and "conformance/log" in item.path.as_posix())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    case = case_of(item)
    if case is not None and report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
        item.config.stash[passed_key][case[0]].add(case[1])
    return report
