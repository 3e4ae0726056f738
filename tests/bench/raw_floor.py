"""The floor under due-to-STARTED: the raw loops in the place of dispatcher and worker, on the same broker."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.acceptance.real_stack import wait_for
from tests.bench import raw_consume, raw_produce
from tests.bench.figures import quantiles
from tests.bench.load import whole_second
from tests.bench.raw_records import EVENTS, make_topics
from tests.bench.sight import STARTED, US, Sight, delays_ms
from waterclock.stack import leash as leash_program

_LEAD_S = 12.0


def _start(command: list[str], **more: Any) -> subprocess.Popen[str]:
    leash = [sys.executable, "-I", "-S", leash_program.__file__, str(os.getpid())]
    return subprocess.Popen([*leash, *command], cwd=raw_produce.ROOT, text=True, **more)


def delays(
    bootstrap: str, partitions: int, *, jobs: int, every_s: int, times: int, skip: int, spread: bool
) -> dict[str, float]:
    """Quantiles in ms: ``jobs`` runs in each of ``times`` intervals, the first ``skip`` of them left out."""
    make_topics(bootstrap, partitions)
    start_at = whole_second(_LEAD_S)
    until = start_at + times * every_s * US
    given = {"bootstrap": bootstrap, "partitions": partitions}
    answering = {"runs": 1 << 60, "round": 1_000, "transactional": True, "group": f"raw-floor-{start_at}", "echo": True}
    due = {"jobs": jobs, "every_us": every_s * US, "start_at": start_at, "until": until, "spread": spread}
    sight = Sight(bootstrap, EVENTS, (STARTED,))
    answers = _start(raw_consume.command({**given, **answering}))
    try:
        asks = _start(raw_produce.command({**given, **due}), stdout=subprocess.PIPE)
        try:
            told, _ = asks.communicate(timeout=120 + _LEAD_S + times * every_s)
        finally:
            asks.kill()
        if asks.returncode:
            raise RuntimeError(f"the raw loop ended with {asks.returncode}: {told}")
        wait_for(lambda: sight.count() >= jobs * times, "the raw loop's runs were seen", 60.0, 0.2)
    finally:
        answers.kill()
        answers.wait()
        seen = sight.stop()
    counted_from = start_at + skip * every_s * US
    found = [(glimpse.run_id, glimpse.seen_at) for glimpse in seen]
    waits = [ms for (run_id, at), ms in zip(found, delays_ms(found), strict=True) if at - ms * 1_000 >= counted_from]
    return quantiles(waits)
