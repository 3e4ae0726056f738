"""The guard: asks once, checks all, and hands out addresses alone."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from waterclock.clock import ManualClock, SystemClock
from waterclock.egress.allow import AllowList
from waterclock.egress.destination import of_url
from waterclock.egress.guard import Guard
from waterclock.egress.refusals import EgressRefused, Unreachable
from waterclock.model.errors import RequestError

PUBLIC = "93.184.216.34"


class Stub:
    """Answers from a list, one entry a question; the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        await asyncio.sleep(0)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Silent:
    async def resolve(self, host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []


class Unknown:
    async def resolve(self, host: str, port: int) -> list[str]:
        raise OSError("no such name")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def _guard(*answers: list[str], allow: tuple[str, ...] = (), **more: float) -> tuple[Guard, Stub, ManualClock]:
    stub, clock = Stub(*answers), ManualClock()
    return Guard(AllowList(allow), clock, resolver=stub, **more), stub, clock


def _passage(loop: asyncio.AbstractEventLoop, guard: Guard, url: str) -> tuple[str, ...]:
    return loop.run_until_complete(guard.passage(of_url(url)[0])).addresses


def test_a_public_name_is_handed_out_as_addresses(loop: asyncio.AbstractEventLoop) -> None:
    guard, stub, _ = _guard([PUBLIC, "2606:4700::1"])
    assert _passage(loop, guard, "https://hooks.example/") == (PUBLIC, "2606:4700::1")
    assert stub.asked == ["hooks.example"]


def test_one_blocked_address_refuses_the_whole_answer(loop: asyncio.AbstractEventLoop) -> None:
    guard, _, _ = _guard([PUBLIC, "127.0.0.1"])
    with pytest.raises(EgressRefused, match=r"127\.0\.0\.1, which is loopback"):
        _passage(loop, guard, "https://hooks.example/")


def test_a_name_that_flips_is_judged_by_the_answer_that_is_used(loop: asyncio.AbstractEventLoop) -> None:
    guard, stub, clock = _guard([PUBLIC], ["127.0.0.1"], keep_s=10.0)
    assert _passage(loop, guard, "https://hooks.example/") == (PUBLIC,)
    assert _passage(loop, guard, "https://hooks.example/") == (PUBLIC,)
    assert len(stub.asked) == 1, "a kept answer is used again, so it cannot flip in between"
    clock.advance(11_000_000)
    with pytest.raises(EgressRefused):
        _passage(loop, guard, "https://hooks.example/")


def test_many_callers_ask_once(loop: asyncio.AbstractEventLoop) -> None:
    guard, stub, _ = _guard([PUBLIC])

    async def all_at_once() -> None:
        await asyncio.gather(*(guard.passage(of_url("https://hooks.example/")[0]) for _ in range(50)))

    loop.run_until_complete(all_at_once())
    assert len(stub.asked) == 1


def test_a_caller_that_is_cancelled_takes_no_answer_from_the_others(loop: asyncio.AbstractEventLoop) -> None:
    guard, _, _ = _guard([PUBLIC])

    async def two() -> tuple[str, ...]:
        first = asyncio.ensure_future(guard.passage(of_url("https://hooks.example/")[0]))
        second = asyncio.ensure_future(guard.passage(of_url("https://hooks.example/")[0]))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).addresses

    assert loop.run_until_complete(two()) == (PUBLIC,)


@pytest.mark.parametrize("url", ["http://hooks.example/", "https://hooks.example:8443/", "https://127.0.0.1/"])
def test_clear_text_other_ports_and_private_literals_need_the_operator(
    loop: asyncio.AbstractEventLoop, url: str
) -> None:
    guard, stub, _ = _guard([PUBLIC])
    with pytest.raises(EgressRefused, match=r"egress\.allow"):
        _passage(loop, guard, url)
    assert stub.asked == [], "nobody is asked about a name that will not be called"


def test_a_listed_place_may_be_called_and_no_other_port_or_name_with_it(loop: asyncio.AbstractEventLoop) -> None:
    guard, _, _ = _guard(["127.0.0.1"], allow=("127.0.0.1:8080", "billing.internal:443"))
    assert _passage(loop, guard, "http://127.0.0.1:8080/") == ("127.0.0.1",)
    assert _passage(loop, guard, "https://billing.internal/") == ("127.0.0.1",)
    for url in ("http://127.0.0.1:8081/", "http://127.0.0.2:8080/", "http://evil.example:8080/"):
        with pytest.raises(EgressRefused):
            _passage(loop, guard, url)


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "168.63.129.16", "100.100.100.200", "224.0.0.1", "0.0.0.1", "fe80::1", "fd00:ec2::254"),
        *("::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe"),
        *("2002:a9fe:a9fe::", "2001:0:808:808:0:fbff:5601:5601", "2606:4700::5efe:a9fe:a9fe", "::ffff:0.0.0.0"),
    ],
)
def test_a_listed_name_still_does_not_lead_to_metadata(loop: asyncio.AbstractEventLoop, address: str) -> None:
    guard, _, _ = _guard([address], allow=("billing.internal:443",))
    with pytest.raises(EgressRefused, match="no name may lead there"):
        _passage(loop, guard, "https://billing.internal/")


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "fd12::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"])
def test_a_listed_name_leads_wherever_else_the_operator_lets_it(loop: asyncio.AbstractEventLoop, address: str) -> None:
    guard, _, _ = _guard([address], allow=("billing.internal:443",))
    assert _passage(loop, guard, "https://billing.internal/") == (address,)


def test_a_metadata_address_may_be_listed_by_itself_alone(loop: asyncio.AbstractEventLoop) -> None:
    guard, _, _ = _guard([PUBLIC], allow=("169.254.169.254:80", "[::ffff:169.254.169.254]:80"))
    assert _passage(loop, guard, "http://169.254.169.254/") == ("169.254.169.254",)
    assert _passage(loop, guard, "http://[::ffff:169.254.169.254]/")
    with pytest.raises(EgressRefused, match="is link-local"):
        _passage(loop, guard, "https://[64:ff9b::169.254.169.254]/")


def test_a_socket_is_judged_again_when_it_is_made(loop: asyncio.AbstractEventLoop) -> None:
    guard, _, _ = _guard(["127.0.0.1"], allow=("127.0.0.1:8080",))
    guard.check_socket(PUBLIC, 443)
    with pytest.raises(EgressRefused):
        guard.check_socket("127.0.0.1", 8080)
    _passage(loop, guard, "http://127.0.0.1:8080/")
    guard.check_socket("127.0.0.1", 8080)
    with pytest.raises(EgressRefused):
        guard.check_socket("127.0.0.1", 8081)


@pytest.mark.parametrize("resolver", [Silent(), Unknown()])
def test_a_name_without_an_answer_is_unreachable_within_a_bound(
    loop: asyncio.AbstractEventLoop, resolver: Silent | Unknown
) -> None:
    guard = Guard(AllowList(), ManualClock(), resolver=resolver, timeout_s=0.02)
    with pytest.raises(Unreachable, match=r"hooks\.example") as trouble:
        _passage(loop, guard, "https://hooks.example/")
    assert trouble.value.error_class == "name-not-resolved"


@pytest.mark.parametrize("entry", ["127.0.0.1", "http://127.0.0.1:80", "127.1:80", "10.0.0.0/8", "*:443", ""])
def test_an_entry_that_is_no_host_and_port_stops_the_start(entry: str) -> None:
    with pytest.raises(RequestError) as refused:
        AllowList([entry])
    assert refused.value.pointer == "/egress/allow"


def test_names_whose_servers_are_silent_hold_no_other_name_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more silent names than any pool has threads, then another one is answered, and each is asked once."""
    silent, asked = threading.Event(), []
    real = socket.getaddrinfo

    def ask(host: str, *args: Any, **more: Any) -> Any:
        asked.append(host)
        if host != "live.example":
            silent.wait(20.0)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", ask)

    async def play() -> tuple[str, ...]:
        guard = Guard(AllowList(["live.example:443"]), SystemClock(), timeout_s=1.0)
        dead = [of_url(f"https://dead-{number}.example/")[0] for number in range(40)]
        for _ in range(2):  # the second time while the first questions still wait
            troubles = asyncio.gather(*(guard.passage(each) for each in dead), return_exceptions=True)
            addresses = (await guard.passage(of_url("https://live.example/")[0], within_s=0.9)).addresses
            assert all(isinstance(each, Unreachable) for each in await troubles)
        silent.set()
        return addresses

    assert uvloop.run(play()) == ("127.0.0.1",)
    assert len(asked) == 41
