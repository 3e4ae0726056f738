"""A hundred thousand runs in flight on one box: async handlers, held for several leases, then let go.

Bars (medians of five rounds): <= 3 KB of the workers' memory each; none lost, none ended early or doubled, every lease
kept (no ATTEMPT_LOST), all of them succeed. The memory of the other roles is told beside. Sixteen partitions, so that
sixteen workers have work.
"""

from __future__ import annotations

from tests.acceptance.evidence import Evidence
from tests.bench import amount, in_flight
from tests.bench.figures import Figures
from tests.bench.series import Series

SHORT_FORM = False
BYTES_EACH = 3 * 1_024
IN_FLIGHT = 100_000


def main(short: bool = False) -> None:
    evidence, figures = Evidence("bench-in-flight", None), Figures("bench-in-flight")
    series = Series(figures)
    for _ in range(1 if short else amount.rounds()):
        one = in_flight.measure(in_flight.SHORT if short else in_flight.WHOLE)
        series.take("in_flight", one.in_flight, "runs", n=one.runs)
        series.take("bytes_each", one.bytes_each, "bytes", n=one.in_flight)
        series.take("others.bytes_each", one.bytes_everybody, "bytes", n=one.in_flight)
        for word, count in (
            ("attempts taken for dead", one.lost),
            ("runs that ended while they were held", one.early),
            ("runs that never ended", one.never_ended),
            ("runs that began twice", one.doubled),
        ):
            evidence.demand(count == 0, f"{count} {word}")
    found = {name: series.judged(name) for name in series.names()}
    if not short:
        evidence.demand(amount.is_whole(), "a quick look: fewer rounds than the bar asks for")
        reached = found["bytes_each"].median
        evidence.demand(found["in_flight"].lowest >= IN_FLIGHT, f"{found['in_flight'].lowest:.0f} in flight at once")
        evidence.demand(reached <= BYTES_EACH, f"{reached:.0f} bytes for a run in flight, wanted <= {BYTES_EACH}")
        print(f"kept in {figures.save()}")
    evidence.close()
