"""What a check says: which servers, then its figures as JSON lines, then how far it fell short.

A shortfall does not end the check at once: all figures are printed first, so that one run tells all there is to know.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.real_stack import RealStack
from waterclock.stack.cql_probe import release_version
from waterclock.stack.kafka_server import cluster_id

_COMPLAINTS_SHOWN = 10


class FallsShort(AssertionError):
    """The promise is broken, or what was to be provoked did not happen."""


class Evidence:
    """The figures of one check; ``stack``: None where it needs no servers.

    ``close`` raises FallsShort where a demand was not met.
    """

    def __init__(self, check: str, stack: RealStack | None) -> None:
        self._check = check
        self._shortfalls = 0
        self._began_s = time.monotonic()
        self.remark: Callable[[str], str] = lambda _: ""
        """What a check knows about a complaint: it is shown behind it."""
        if stack is None:
            return
        self.figure("kafka cluster id", cluster_id(stack.kafka.port))
        self.figure("cassandra release", release_version(stack.cassandra.port))
        self.figure("logs", str(stack.folder))

    def figure(self, name: str, value: object, **more: object) -> None:
        """Print one figure."""
        print(json.dumps({"check": self._check, "figure": name, "value": value, **more}), flush=True)

    def demand(self, holds: bool, otherwise: str) -> None:
        """What must be so; ``otherwise`` says what is so instead."""
        if not holds:
            self._shortfalls += 1
            print(f"FALLS SHORT: {otherwise}", flush=True)

    def none_of(self, complaints: Iterable[str], what: str) -> None:
        """There must be none of these; the first few are shown."""
        found = list(complaints)
        shown = "".join(f"\n    {complaint}{self.remark(complaint)}" for complaint in found[:_COMPLAINTS_SHOWN])
        self.demand(not found, f"{len(found)} {what}:{shown}")

    @property
    def falls_short(self) -> bool:
        """Whether a demand was not met so far."""
        return self._shortfalls > 0

    def close(self) -> None:
        """The last line: how long it took. Raises FallsShort."""
        self.figure("seconds", round(time.monotonic() - self._began_s, 1))
        if self._shortfalls:
            raise FallsShort(f"{self._check} falls short in {self._shortfalls} points: they are told above")


@contextmanager
def on_stage(
    check: str, *, partitions: int = 4, build: Callable[..., RealStack] = RealStack
) -> Iterator[tuple[RealStack, Evidence]]:
    """Servers of the check's own, and its evidence. The folder with the logs stays where the check falls short."""
    folder = Path(tempfile.mkdtemp(prefix=f"{check}-"))
    with build(folder, partitions=partitions) as stack:
        evidence = Evidence(check, stack)
        yield stack, evidence
        evidence.close()
    shutil.rmtree(folder)
