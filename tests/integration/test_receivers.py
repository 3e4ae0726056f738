"""The receivers that we publish, run as they are: the effect of a key happens once, and an older fence is refused."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

RECEIVERS = Path(__file__).resolve().parents[2] / "docs" / "receivers"
START_S = 90.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(language: str, port: int, folder: Path) -> list[str]:
    if language == "python":
        return [sys.executable, str(RECEIVERS / "python" / "receiver.py"), str(port), str(folder / "inbox.db")]
    program = shutil.which({"java": "java", "go": "go"}[language])
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {language} for the published receiver", pytrace=False)
        pytest.skip(f"NOT TESTED, no {language} on the PATH")
    source = str(RECEIVERS / language / {"java": "Receiver.java", "go": "receiver.go"}[language])
    if language == "java":
        return [program, "-XX:TieredStopAtLevel=1", source, str(port)]
    return [program, "run", source, str(port)]


class Caller:
    def __init__(self, port: int) -> None:
        self._port = port

    def call(self, method: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20.0)
        try:
            connection.request(method, "/", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, key: str, fence: int, body: bytes = b'{"amount":1}') -> int:
        return self.call("POST", {"Idempotency-Key": key, "Waterclock-Fence": str(fence)}, body)[0]

    def effects(self) -> int:
        return int(self.call("GET", {})[1])


@pytest.fixture(params=["python", "java", "go"], scope="module")
def caller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    port, folder = _free_port(), tmp_path_factory.mktemp(request.param)
    command = _command(request.param, port, folder)
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=folder)
    try:
        until_s = time.monotonic() + START_S
        while True:
            try:
                Caller(port).effects()
                break
            except (OSError, ValueError):
                told = (folder / "log.txt").read_text()
                assert process.poll() is None, f"{request.param} ended:\n{told}"
                assert time.monotonic() < until_s, f"{request.param} does not answer:\n{told}"
                time.sleep(0.05)
        yield Caller(port)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # `go run` has a child of its own
        process.wait()


def test_the_effect_of_a_key_happens_once(caller: Caller) -> None:
    before = caller.effects()
    assert [caller.post("acme:pay@1", fence) for fence in (10, 10, 25, 7)] == [200, 200, 200, 200]
    assert caller.effects() == before + 1


def test_an_older_attempt_is_refused_once_a_newer_one_was_seen(caller: Caller) -> None:
    before = caller.effects()
    assert caller.post("acme:pay@2", 20, b"this attempt fails") == 422
    assert caller.post("acme:pay@2", 10) == 409, "it was sent before and comes late"
    assert caller.effects() == before
    assert caller.post("acme:pay@2", 30) == 200
    assert caller.effects() == before + 1


def test_tokens_are_compared_as_numbers_and_only_for_the_same_key(caller: Caller) -> None:
    before = caller.effects()
    assert caller.post("acme:pay@3", 281_474_976_710_656) == 200
    assert caller.post("acme:pay@4", 9) == 200
    assert caller.post("acme:pay@5", 99, b"fails") == 422
    assert caller.post("acme:pay@5", 100) == 200
    assert caller.effects() == before + 3


def test_attempts_at_the_same_moment_have_one_effect(caller: Caller) -> None:
    before = caller.effects()
    with ThreadPoolExecutor(8) as many:
        statuses = list(many.map(lambda fence: caller.post("acme:pay@6", fence), range(100, 116)))
    assert set(statuses) <= {200, 409}
    assert 200 in statuses or caller.post("acme:pay@6", 200) == 200
    assert caller.effects() == before + 1


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}, {"Idempotency-Key": "k", "Waterclock-Fence": "x"}])
def test_a_call_without_key_or_fence_has_no_effect(caller: Caller, headers: dict[str, str]) -> None:
    before = caller.effects()
    assert caller.call("POST", headers, b"{}")[0] == 400
    assert caller.effects() == before
