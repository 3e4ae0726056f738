"""``python -m tests.bench [throughput|steady|herd ...]``: measure, print JSON lines, keep them in bench/results/."""

from __future__ import annotations

import sys

from tests.bench import pipeline
from tests.bench.figures import Figures

BENCHES = {"throughput": pipeline.throughput, "steady": pipeline.steady, "herd": pipeline.herd}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no bench {unknown[0]!r}: there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    figures = Figures("pipeline")
    for name in names or BENCHES:
        BENCHES[name](figures)
    print(f"kept in {figures.save()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
