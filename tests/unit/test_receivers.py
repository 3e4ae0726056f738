"""The receivers that we publish keep what they say: one effect for a run, no older fence, no foreign signature.

Each is started as its reader would start it (the Python one in this process), and called with what our own worker would
send: the same signer, the same headers.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.unit.executor_world import bench_of
from waterclock.egress.signing import Secrets
from waterclock.model.events import Outcome
from waterclock.model.executor import HttpCall

RECEIVERS = Path(__file__).parents[2] / "docs" / "receivers"
SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
OTHER_SECRET = "whsec_" + b64encode(bytes(range(1, 33))).decode()
ORDER = b'{"customer": "acme"}'
WITHOUT_CUSTOMER = b'{"note": "nobody"}'
_STARTS_WITHIN_S = 120.0


class Receiver:
    """A receiver that runs, seen from a worker."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(
        self,
        run_id: str,
        fence: str = "281474976710700",
        body: bytes = ORDER,
        *,
        secrets: tuple[str, ...] = (SECRET,),
        sent_ago_s: int = 0,
        **changed: str,
    ) -> tuple[int, str]:
        """Status and text of the answer. ``changed``: headers that somebody on the way has put in."""
        sent_at = int(time.time()) - sent_ago_s
        headers = {
            "webhook-id": run_id,
            "webhook-timestamp": str(sent_at),
            "webhook-signature": Secrets({"default": secrets}).signature("", run_id, sent_at, body),
            "Idempotency-Key": run_id,
            "Waterclock-Fence": fence,
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        request = urllib.request.Request(self.url, body, headers)  # noqa: S310 - a loopback address of our own
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the same
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@contextmanager
def _python(folder: Path) -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("receiver", RECEIVERS / "python" / "receiver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.serve(0, SECRET, str(folder / "receiver.db"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _java(folder: Path) -> Iterator[str]:
    source = RECEIVERS / "java" / "Receiver.java"
    _made(_tool("javac"), "-Werror", "-Xlint:all", "-d", str(folder), str(source))
    with _started(_tool("java"), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "Receiver") as url:
        yield url


@contextmanager
def _go(folder: Path) -> Iterator[str]:
    program = folder / "receiver"
    _made(_tool("go"), "build", "-o", str(program), str(RECEIVERS / "go" / "receiver.go"))
    with _started(str(program)) as url:
        yield url


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _made(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_STARTS_WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _started(*command: str) -> Iterator[str]:
    with subprocess.Popen([*command, "0", SECRET], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), f"it did not start: {url!r}"
            yield url
        finally:
            process.kill()


_WAYS = {"python": _python, "java": _java, "go": _go}


@pytest.fixture(scope="module", params=list(_WAYS))
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    running: AbstractContextManager[str] = _WAYS[request.param](tmp_path_factory.mktemp(request.param))
    with running as url:
        yield Receiver(url)


@pytest.fixture
def receiver(way: Receiver, request: pytest.FixtureRequest) -> tuple[Receiver, str]:
    """One for all tests of a language; each test has run ids of its own."""
    return way, f"default:{request.node.originalname.replace('_', '-')}@20261121T090000Z"


def test_what_a_worker_sends_is_taken_and_its_repeat_changes_nothing(receiver: tuple[Receiver, str]) -> None:
    to, _ = receiver
    place = to.url.removeprefix("http://").rstrip("/")
    with bench_of(egress={"allow": (place,)}, webhook={"secrets": {"default": SECRET}}) as worker:
        ended = [worker.run(HttpCall(to.url), ORDER) for _ in range(2)]
    assert [each.outcome for each in ended] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED]
    assert ended[0].result == ended[1].result, "the same run, so the same answer"
    with bench_of(egress={"allow": (place,)}, webhook={"secrets": {"default": OTHER_SECRET}}) as stranger:
        assert stranger.run(HttpCall(to.url), ORDER).outcome is Outcome.FAILED


def test_a_repeat_of_a_key_is_answered_as_before_without_the_effect(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    status, first = to.call(run)
    assert status == 200
    assert to.call(run) == (200, first)
    assert to.call(run, fence="281474976710999") == (200, first), "a later attempt of a run that is done"
    assert to.call(run, fence="1") == (200, first), "an older one is told the same"
    _, later = to.call(run + "~7")
    assert _number(later) == _number(first) + 1, "the repeats had an effect"


def test_an_older_fence_is_refused(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    before = _number(to.call(run + "~1")[1])
    assert to.call(run, fence="281474976710720", body=WITHOUT_CUSTOMER)[0] == 422, "the newer attempt had no effect"
    assert to.call(run, fence="281474976710719")[0] == 409
    status, done = to.call(run, fence="281474976710720")
    assert (status, _number(done)) == (200, before + 1), "what was refused had an effect, or the fence refuses its own"


def test_the_fence_of_one_run_refuses_no_other(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    assert to.call(run, fence="281474976710800")[0] == 200
    assert to.call(run + "~1", fence="281474976710799")[0] == 200, "runs of one job may overlap"


def test_a_wrong_signature_is_refused_without_the_effect(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    before = _number(to.call(run + "~1")[1])
    assert to.call(run, secrets=(OTHER_SECRET,))[0] == 401
    assert to.call(run, webhook_id=run + "~9")[0] == 401, "another run's id under a signature that was seen"
    assert to.call(run, webhook_signature="")[0] == 401
    assert to.call(run, webhook_signature="v1,")[0] == 401
    assert to.call(run, sent_ago_s=600)[0] == 401, "too old"
    assert to.call(run, sent_ago_s=-600)[0] == 401, "from the future"
    assert to.call(run, webhook_timestamp="soon")[0] == 401
    assert _number(to.call(run)[1]) == before + 1


def test_while_a_secret_is_replaced_either_will_do(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    assert to.call(run, secrets=(OTHER_SECRET, SECRET))[0] == 200


def test_a_fence_that_is_no_number_is_refused(receiver: tuple[Receiver, str]) -> None:
    to, run = receiver
    assert to.call(run, fence="newest")[0] == 400


def _number(answer: str) -> int:
    return int(answer.removeprefix('{"invoice": ').removesuffix("}"))
