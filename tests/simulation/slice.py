"""The slice of fresh seeds of a test session, played by what its other tests leave of the processors.

``python -m tests.simulation.slice FIRST FILE SEEDS`` gives way to everything else (half of a session's minutes are
waits), until ``FILE`` is there: from then on its lane waits for it, and it has ``SLICE_S`` seconds more. In CI
the seeds follow from the digest of all that a play imports: other code has other seeds, and a run of the same code
repeats them, so that its verdict is that of the code. At home they are fresh (``WATERCLOCK_FIRST_SEED`` repeats a
session).
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from .hunt import Catch, hunt
from .ledger import cores_digest, judges_digest

ROOT = Path(__file__).resolve().parents[2]
SEEDS, SURELY, SLICE_S = 200, 120, 100
"""So many, but on a slow machine no more than ``SURELY`` once the time that is left is over."""
_ENDED_WITHIN_S = 1_200
_MOST_NICE = 19


def first_seed() -> int:
    """Of this session."""
    if told := os.environ.get("WATERCLOCK_FIRST_SEED"):
        return int(told)
    if os.environ.get("CI") != "true":
        return secrets.randbits(40)
    return int(cores_digest()[:5] + judges_digest()[:5], 16)


class Slice:
    """A slice that is being played, begun at once."""

    def __init__(self, first: int, seeds: int = SEEDS) -> None:
        self.first = first
        self._folder = tempfile.TemporaryDirectory(prefix="slice-of-seeds-")
        self._file = Path(self._folder.name) / "nothing-else-is-left"
        command = [sys.executable, "-m", "tests.simulation.slice", str(first), str(self._file), str(seeds)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def end(self) -> Catch:
        """What came of it; waits for it. Raises RuntimeError where it broke, TimeoutExpired."""
        self._file.touch()
        said, _ = self._process.communicate(timeout=_ENDED_WITHIN_S)
        if self._process.returncode:
            raise RuntimeError(f"the slice of seeds from {self.first} ended with {self._process.returncode}")
        told = json.loads(said)
        violations = {int(seed): tuple(complaints) for seed, complaints in told["violations"].items()}
        return Catch(told["seeds"], told["seconds"], Counter(told["counts"]), violations, told["short"])

    def close(self) -> None:
        """End it, whatever it is at, with its own processes: the group is theirs alone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()


def main(words: list[str]) -> None:
    first, file = int(words[0]), Path(words[1])
    _give_way()

    def goes_on(played: int) -> bool:
        if played < SURELY or not file.exists():
            return True
        return time.time() - file.stat().st_mtime < SLICE_S

    caught = hunt(range(first, first + int(words[2])), processes=os.cpu_count() or 1, goes_on=goes_on)
    print(json.dumps({each.name: getattr(caught, each.name) for each in fields(caught)}))


def _give_way() -> None:
    """Behind everybody else. Where sessions are scheduled as groups, Linux's default, the group's niceness counts."""
    os.nice(_MOST_NICE)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_MOST_NICE), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
