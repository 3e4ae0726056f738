"""Which server a test gets: one that runs already, else a local JVM, else a container; and what is said of none."""

from __future__ import annotations

import pytest

from tests import servers
from tests.servers import Missing, Servers
from waterclock.stack.trouble import StackTrouble


class Launched:
    """Stands in for a server in a JVM."""

    port = 1234

    def __init__(self, trouble: StackTrouble | None = None) -> None:
        self.trouble = trouble
        self.killed = 0

    def wait_ready(self) -> None:
        if self.trouble:
            raise self.trouble

    def kill(self) -> None:
        self.killed += 1


class Contained:
    """Stands in for a container."""

    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def no_java(monkeypatch):
    def refuse(_):
        raise StackTrouble("no Java here", hint="install it")

    monkeypatch.setattr(servers, "_LAUNCHERS", {"kafka": refuse, "cassandra": refuse})


@pytest.fixture
def containers(monkeypatch):
    started = Contained()
    monkeypatch.setattr(servers, "_CONTAINERS", {"kafka": lambda: (started, "127.0.0.1", 4711)})
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda _: object())
    return started


def test_a_server_that_runs_already_comes_first_and_nothing_is_started(tmp_path, no_java):
    found = Servers(tmp_path, {"kafka"}, {"WATERCLOCK_TEST_KAFKA": "broker.example:9094"}).get("kafka")
    assert (found.host, found.port, found.server) == ("broker.example", 9094, None)


def test_a_local_jvm_comes_next_and_ends_with_the_session(tmp_path, monkeypatch, containers):
    launched = {"kafka": Launched(), "cassandra": Launched()}
    monkeypatch.setattr(servers, "_LAUNCHERS", {name: lambda _, n=name: launched[n] for name in launched})
    session = Servers(tmp_path, {"kafka", "cassandra"}, {})
    with session.closing:
        assert session.get("kafka").server is launched["kafka"]
        assert session.get("kafka").address == "127.0.0.1:1234"
    assert [each.killed for each in launched.values()] == [1, 1], "both start at the first question"
    assert containers.stopped == 0


def test_what_runs_elsewhere_is_not_started_beside_it(tmp_path, monkeypatch):
    launched = Launched()
    monkeypatch.setattr(servers, "_LAUNCHERS", {"kafka": lambda _: launched})
    session = Servers(tmp_path, {"kafka", "cassandra"}, {"WATERCLOCK_TEST_CASSANDRA": "store:9042"})
    assert session.get("kafka").server is launched
    assert session.get("cassandra").host == "store"


def test_without_java_a_container_serves_and_is_stopped(tmp_path, no_java, containers):
    session = Servers(tmp_path, {"kafka"}, {})
    with session.closing:
        assert session.get("kafka").port == 4711
        assert session.get("kafka").server is None
    assert containers.stopped == 1


def test_a_jvm_that_dies_gives_way_to_a_container(tmp_path, monkeypatch, containers):
    dead = Launched(StackTrouble("it died", hint="look"))
    monkeypatch.setattr(servers, "_LAUNCHERS", {"kafka": lambda _: dead})
    assert Servers(tmp_path, {"kafka"}, {}).get("kafka").port == 4711


def test_with_nothing_at_all_it_says_what_the_jvm_lacked(tmp_path, no_java, monkeypatch):
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Missing, match=r"(?s)no Java here.*nor is testcontainers installed"):
        Servers(tmp_path, {"kafka"}, {}).get("kafka")


def test_an_engine_that_does_not_answer_is_told_beside_it(tmp_path, no_java, monkeypatch, containers):
    def refuse():
        raise ConnectionError("no engine")

    monkeypatch.setattr(servers, "_CONTAINERS", {"kafka": refuse})
    with pytest.raises(Missing, match=r"(?s)no Java here.*no engine"):
        Servers(tmp_path, {"kafka"}, {}).get("kafka")
