"""The compiled codecs and the Python that they are made of are one: same values, same bytes, same refusals.

``test_wire_codec.py`` holds whichever is in use to fastavro; here the other one is asked in a process of its own.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock import wire
from waterclock.model.dag_events import DagStart
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Ended, EventKind, Origin, Pending, Revised, RunEvent, Skipped, Started, WorkRecord
from waterclock.model.job import Tier
from waterclock.wire import codec

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_795_000_000_123_456
RUN = "acme:nightly@20261121T090000Z"

EVENTS = [
    RunEvent(EventKind.PENDING, "acme:nightly", RUN, NOW, detail=Pending(9, NOW, NOW, Tier.LOW, Origin.SCHEDULE)),
    RunEvent(
        EventKind.PENDING, "acme:é", f"{RUN}~7", -1, 2, "w", 3, 2**62, "why",
        Pending(2**60, NOW, None, Tier.HIGH, Origin.REDRIVE, "entry", dag=DagStart(b"{}", ("a", "b")), hops=3),
    ),
    RunEvent(EventKind.STARTED, "acme:nightly", RUN, NOW, 1, "worker-1", 5, detail=Started("runs.low", 3, 70_000)),
    RunEvent(EventKind.ATTEMPT_FAILED, "acme:nightly", RUN, NOW, 1, "w", 5, 2**50, detail=Ended(NOW, "E", "é" * 7)),
    RunEvent(EventKind.SKIPPED, "acme:nightly", RUN, NOW, detail=Skipped(9, NOW, NOW + 5, 3, Tier.MEDIUM, 0, RUN)),
    RunEvent(EventKind.REVISED, "acme:nightly", "", NOW, detail=Revised(9, NOW, NOW, "create", ((1, 2), (3, 4)))),
]  # fmt: skip
WORK = [
    WorkRecord(RUN, NOW, NOW, 1, "acme:nightly", 9, Tier.MEDIUM, "default", "send", b"{}"),
    WorkRecord(RUN, NOW, NOW, 2, "acme:nightly", 9, Tier.LOW, "gpu", "", b"", "{}", True, "{}", 7, "x", 1, 4, "b", RUN),
]

OTHER_FORM = """
import sys
from tests.unit.test_compiled_codecs import said_of
from waterclock.wire import compiled_folder
assert compiled_folder is None
for line in sys.stdin:
    print(said_of(bytes.fromhex(line)))
"""


def said_of(data: bytes) -> str:
    """What decoding these bytes comes to, and encoding that again."""
    try:
        value = codec.decode_any(data)
    except UndecodableRecord as error:
        return f"refused: {str(error)[:40]!a}"
    return f"{value!a} {(codec.encode_event if isinstance(value, RunEvent) else codec.encode_work)(value).hex()}"


def samples() -> list[bytes]:
    """Good records, and 4,000 that were changed, cut or stretched at random places."""
    good = [*map(codec.encode_event, EVENTS), *map(codec.encode_work, WORK)]
    rng, found = random.Random(4_711), list(good)
    for _ in range(4_000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(10, len(data))
            if rng.random() < 0.7:
                data[place] = rng.choice((0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            else:
                del data[place : place + rng.randint(1, 4)]
            if rng.random() < 0.2:
                data += bytes(rng.choices((0, 0xFF, 2), k=3))
            if len(data) <= 10:
                break
        found.append(bytes(data))
    return found


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if wire.compiled_folder is not None:
        return
    if os.environ.get("CI") and shutil.which("cc"):
        pytest.fail("there is a C compiler, and the codecs are not compiled from these sources: make compiled")
    pytest.skip("the codecs are not compiled here: make compiled")


def test_both_forms_say_the_same_of_any_bytes() -> None:
    lines = "".join(f"{data.hex()}\n" for data in samples())
    env = os.environ | {"WATERCLOCK_COMPILED": "0"}
    command = [sys.executable, "-c", OTHER_FORM]
    done = subprocess.run(command, cwd=ROOT, env=env, input=lines, capture_output=True, text=True, check=True)
    other = done.stdout.splitlines()
    mine = [said_of(data) for data in samples()]
    assert [pair for pair in zip(mine, other, strict=True) if pair[0] != pair[1]] == []
    refused = sum(line.startswith("refused: ") for line in mine)
    assert 1_000 < refused < 3_900  # else the samples show too little


def test_modules_made_of_other_sources_are_not_used(tmp_path: Path) -> None:
    stale = tmp_path / "waterclock_compiled"
    stale.mkdir()
    (stale / "__init__.py").write_text('DIGEST = "another"\n')
    asked = "from waterclock import wire; print(wire.compiled_folder, wire.digest_of_sources())"
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", asked]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "None"
