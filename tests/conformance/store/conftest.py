"""One suite, two stores: every case runs in memory and on a real node, and both lists of passed cases are equal.

No case is skipped or expected to fail on one side; only a missing server skips its whole side (``tests/conftest``).
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.old_runs import old_put
from waterclock.clock import ManualClock, SystemClock
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.job import Tier
from waterclock.store.cassandra import CassandraStore
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.store.migrate import migrate
from waterclock.store.port import RunRow, Store

from .world import StoreWorld

SIDES = ("memory", "cassandra")
_HERE = "conformance/store/"
OLD_RUN = old_put(
    RunRow("old:job", 0, 0, 1, Tier.LOW, "SCHEDULE", RunStatus.SKIPPED, Outcome.NONE, 0, 1, 0, 0, "", 0, "", None,
           "paused", "", "", 1, 0, 1)
)  # fmt: skip
"""It stands in the table before the drawers when the clients are opened: so they read that table, too."""

_passed: dict[str, set[str]] = defaultdict(set)
_tenants = iter(range(1_000_000))


@pytest.fixture(scope="session")
def real_clients(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store]]:
    """Two clients of one keyspace on a real node."""
    server = request.getfixturevalue("cassandra_server")
    clock = SystemClock()
    keyspace = f"store_{uuid.uuid4().hex[:12]}"
    migrate([server.host], server.port, keyspace, clock)
    before = CassandraStore([server.host], server.port, keyspace, clock)
    before._cells.write("record", [OLD_RUN]).wait(30.0)
    before.close()
    first = CassandraStore([server.host], server.port, keyspace, clock)
    second = CassandraStore([server.host], server.port, keyspace, clock)
    yield first, second
    first.close()
    second.close()


@pytest.fixture(params=SIDES)
def world(request: pytest.FixtureRequest) -> StoreWorld:
    if request.param == "cassandra":
        clock = SystemClock()
        tenant = f"t{clock.now()}-{next(_tenants)}"
        return StoreWorld("cassandra", *request.getfixturevalue("real_clients"), clock, tenant)
    manual = ManualClock()
    tables = MemoryTables(manual)
    tables.apply([OLD_RUN])
    clients = MemoryStore(manual, tables, "first"), MemoryStore(manual, tables, "second")
    return StoreWorld("memory", *clients, manual, "acme")


def _side(name: str) -> tuple[str, str] | None:
    """(case, side) of a test's name."""
    match = re.fullmatch(r"(.*)\[(memory|cassandra)(.*)\]", name)
    return (match[1] + match[3], match[2]) if match else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask for the server where it is used, and put the comparison of both sides last."""
    ours = [item for item in items if _HERE in item.nodeid]
    for item in ours:
        side = _side(item.name)
        if side and side[1] == "cassandra" and isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.servers)
            item.fixturenames = [*item.fixturenames, "cassandra_server"]
    last = [item for item in ours if item.name == "test_both_sides_passed_the_same_cases"]
    items[:] = [item for item in items if item not in last] + last


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep who passed."""
    if report.when == "call" and report.passed and _HERE in report.nodeid:
        path, _, name = report.nodeid.rpartition("::")
        if side := _side(name):
            _passed[side[1]].add(f"{path}::{side[0]}")


@pytest.fixture
def passed() -> dict[str, set[str]]:
    """The names of the cases that passed so far, by side."""
    return _passed
