"""Which ports a stack takes: those that were asked for or set, else its own of last time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.commands.connect import here
from waterclock.settings import load_settings
from waterclock.stack.ports import any_port, holder_of, is_free, pick_port
from waterclock.stack.state import ProcessState, StackState, write_state
from waterclock.stack.trouble import StackTrouble
from waterclock.stack.up import Up


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".waterclock").mkdir()
    return tmp_path / ".waterclock"


def stopped(folder, bootstrap: str = "127.0.0.1:25681", **addresses: str) -> None:
    """The state file of a stack that has run here."""
    processes = tuple(
        ProcessState(name.replace("_", "-"), "stopped", 1, 0, "", address) for name, address in addresses.items()
    )
    where = (bootstrap, "127.0.0.1", 25_682)
    write_state(folder, StackState(1, "gone", "stopped", 0.0, *where, processes, "http://127.0.0.1:25683"))


def chosen() -> Up:
    up = Up(load_settings(), str)
    up._choose_ports()
    return up


def test_the_ports_of_last_time_are_wanted_again(folder):
    stopped(folder, kafka="127.0.0.1:25681", cassandra="127.0.0.1:25682", api_1="http://127.0.0.1:25683")
    where = chosen()._where()
    assert where.bootstrap == "127.0.0.1:25681"
    assert where.cassandra_port == 25_682
    assert where.api == "http://127.0.0.1:25683"


@pytest.mark.parametrize("bootstrap", ["broker", "one.example:443,two.example:444"])
def test_where_somebody_elses_servers_were_is_no_wish(folder, bootstrap):
    stopped(folder, bootstrap, api_1="http://127.0.0.1:25683")
    assert chosen()._where().bootstrap == f"127.0.0.1:{pick_port(9092).port}"


def test_the_port_that_is_set_for_the_api_comes_before_the_one_of_last_time(folder, monkeypatch):
    stopped(folder, api_1="http://127.0.0.1:25683")
    monkeypatch.setenv("WATERCLOCK_API__PORT", "25684")
    assert chosen()._where().api == "http://127.0.0.1:25684"


def test_cassandra_stands_where_commands_look_for_it(folder, monkeypatch):
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PORT", "25685")
    assert chosen()._where().cassandra_port == here().cassandra.port == 25_685
    monkeypatch.setattr("waterclock.stack.ports.is_free", lambda port: port != 25_685)
    with pytest.raises(StackTrouble) as told:
        chosen()
    assert "WATERCLOCK_CASSANDRA__PORT" in told.value.hint


def test_the_page_at_an_address_of_ipv6_can_be_opened(folder, monkeypatch):
    monkeypatch.setenv("WATERCLOCK_API__HOST", "::1")
    monkeypatch.setenv("WATERCLOCK_API__PORT", "25686")
    assert chosen()._where().api == "http://[::1]:25686"


def test_behind_the_last_port_there_is_none(folder):
    assert not is_free(65_536)
    assert 0 < pick_port(65_536).port < 65_536


def test_a_port_for_a_server_that_starts_slowly_is_none_that_clients_are_given(monkeypatch):
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if first <= 10_000:
        pytest.skip("clients are given any port here")
    ports = {any_port() for _ in range(50)}
    assert len(ports) > 10
    assert not [port for port in ports if first <= port <= last]
    guesses = iter((20_001, 20_002, 20_004))
    monkeypatch.setattr("waterclock.stack.ports.random.randrange", lambda *_: next(guesses))
    monkeypatch.setattr("waterclock.stack.ports.is_free", lambda port: port != 20_001)
    assert any_port(taken={20_002}) == 20_004


_LISTENS = "import socket, sys; taken = socket.socket(); taken.bind(('127.0.0.1', int(sys.argv[1]))); taken.listen(); "


def test_who_has_the_port_of_another_address_is_not_taken_for_who_answers_on_ours(folder):
    """Given both, a server of ours that is reached must be known by it: else it never counts as ready."""
    port = any_port()
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.2", port))
        elsewhere.listen()
        assert pick_port(port).holder is None
        program = [sys.executable, "-c", _LISTENS + "print(flush=True); input()", str(port)]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ours:
            ours.stdout.readline()
            assert holder_of(port).pid == ours.pid
            ours.kill()


@pytest.mark.parametrize("address", ["0.0.0.0", "::ffff:127.0.0.1", "::"])  # noqa: S104 - for a moment
def test_who_listens_everywhere_has_the_port_here_too(folder, address):
    port = any_port()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as everywhere:
        try:
            everywhere.bind((address, port))
        except OSError:
            pytest.skip("no IPv6 here")
        everywhere.listen()
        assert holder_of(port).pid == os.getpid()


def test_the_api_gives_way_to_a_stack_that_took_its_port_while_our_servers_started(folder, monkeypatch):
    launched = []
    monkeypatch.setattr("waterclock.stack.up.RoleProcess", lambda spec, *_: launched.append(spec))
    port = pick_port(25_687).port
    monkeypatch.setenv("WATERCLOCK_API__PORT", str(port))
    said: list[str] = []
    up = Up(load_settings(), said.append)
    up._choose_ports()
    (plan,) = (role for role in up._roles() if role.name == "api-1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        plan.launch()
    other = int(up._where().api.rpartition(":")[2])
    assert other != port
    assert launched[0].env["WATERCLOCK_API__PORT"] == str(other)
    assert launched[0].address == up._where().api
    assert f"api: port {port} is taken" in said[-1]
    up._tell_ready()
    monkeypatch.setattr("waterclock.stack.ports.is_free", lambda _: False)
    plan.launch()  # once it was told the port stays
    assert launched[1].env["WATERCLOCK_API__PORT"] == str(other)
