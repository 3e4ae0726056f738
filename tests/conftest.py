"""Real servers for tests, one of each per session; where they come from stands in ``servers.py``.

A missing server fails when ``CI=true`` and skips at home, saying what is missing. Tests share the servers and never
their names: ``fresh_prefix`` (topics, groups, transactional ids) and ``fresh_keyspace`` are new for each test module.
"""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import lanes
from tests.acceptance.short_forms import ShortForms, what_is_missing
from tests.servers import NAMES, Missing, Running, Servers

if TYPE_CHECKING:
    from tests.simulation.slice import Slice

_GC_YOUNG = 50_000
"""As in a role's process (``waterclock/process.py``)."""


def pytest_configure() -> None:
    """The collector looked through five thousand tests, and all that they import, again and again.

    That was a ninth of the core seconds of the unit tests. Those that are collected stay to the end.
    """
    gc.set_threshold(_GC_YOUNG, 20, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for what goes on beside others comes after all those of its lane."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def _asked(servers: Servers, name: str) -> Running:
    try:
        return servers.get(name)
    except Missing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {name} for the tests: {missing}", pytrace=False)
        pytest.skip(f"NOT TESTED, no {name}: {missing}")


@pytest.fixture(scope="session")
def _servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    asked = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    servers = Servers(tmp_path_factory.mktemp("servers"), {name for name in NAMES if f"{name}_server" in asked})
    with servers.closing:
        yield servers


@pytest.fixture(scope="session")
def kafka_server(_servers: Servers) -> Running:
    """A real Kafka: ``address`` is the bootstrap."""
    return _asked(_servers, "kafka")


@pytest.fixture(scope="session")
def cassandra_server(_servers: Servers) -> Running:
    """A real Cassandra: ``host`` and ``port``."""
    return _asked(_servers, "cassandra")


@pytest.fixture(scope="session", autouse=True)
def _told_lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the lanes of ``make test`` tell one another that they are done."""
    folder = tmp_path_factory.getbasetemp().parent
    yield folder
    lanes.tell_end(folder)


@pytest.fixture(scope="session")
def short_forms(request: pytest.FixtureRequest, _told_lane: Path) -> Iterator[ShortForms]:
    """Those short forms of acceptance checks that tests of this session ask for."""
    asked = [item.callspec.params.get("short_form", "") for item in request.session.items if hasattr(item, "callspec")]
    names = [name for name in asked if name and not what_is_missing(name)]
    forms = ShortForms(names, beside_others=partial(lanes.others_are_at_work, _told_lane))
    yield forms
    forms.close()


@pytest.fixture(scope="session")
def slice_of_seeds(request: pytest.FixtureRequest) -> Iterator[Slice | None]:
    """The seeds of this session, begun by whoever asks first, where one of its tests is about them."""
    if not any(item.get_closest_marker("last") for item in request.session.items):
        yield None
        return
    from tests.simulation.slice import Slice, first_seed  # noqa: PLC0415 - it imports all that a play does

    begun = Slice(first_seed())
    yield begun
    begun.close()


def fresh_name(start: str) -> str:
    """A name that no other test has: for topics, groups, keyspaces, tenants."""
    return f"{start}{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="module")
def fresh_prefix() -> str:
    """A prefix of topics, groups and transactional ids for this test module alone."""
    return fresh_name("t")


@pytest.fixture(scope="module")
def fresh_keyspace() -> str:
    """The name of a keyspace for this test module alone; the schema's runner makes it."""
    return fresh_name("t")
