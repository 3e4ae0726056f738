"""``python -m tests.bench [burst|steady|...]``: measure, print JSON lines, keep them in bench/results/.

Without a name all of ours run whole, one after the other, each as ``make show NAME=bench-...`` does; what fell short is
told at the end, and the exit is not 0 then. ``scale-...`` and the measurements of ``bench-first`` run by name alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

from tests.bench import history_rows, pipeline, scale
from tests.bench.figures import Figures

BARS = ("burst", "steady", "herd", "limits", "in-flight", "recovery", "overload", "observed")
"""Each is an acceptance check, ``bench-<name>``."""

SERIES: dict[str, Callable[[Figures], object]] = {
    "scale-partitions": scale.partitions,
    "scale-dispatchers": scale.dispatchers,
    "scale-workers": scale.workers,
    "scale-stored": scale.stored,
    "scale-open": scale.open_runs,
    "scale-tenants": scale.tenants,
    "history-rows": history_rows.compare,
    "throughput": pipeline.throughput,
    "first-steady": pipeline.steady,
    "first-herd": pipeline.herd,
}
"""No bar is held against these."""


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BARS and name not in SERIES]
    if unknown:
        print(f"no bench {unknown[0]!r}: there are {', '.join((*BARS, *SERIES))}", file=sys.stderr)
        return 2
    short_of = []
    for name in names or BARS:
        if name in SERIES:
            figures = Figures(name)
            SERIES[name](figures)
            print(f"kept in {figures.save()}", flush=True)
            continue
        check = importlib.import_module(f"tests.acceptance.bench_{name.replace('-', '_')}")
        try:
            check.main()
        except AssertionError as falls_short:
            short_of.append(str(falls_short))
    print("\n".join(short_of))
    return 1 if short_of else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
