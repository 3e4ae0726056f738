"""Does the last whole hour balance? A short look of the ledger. Reads log and store, writes nothing.

What must hold: the look is bounded (``EVENTS_MAX`` run events over all shards); where there are more it says so, with
the command that looks at them all. How it fails: what does not answer is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.clock import Clock
from waterclock.ledger.facts import HOUR_US
from waterclock.ledger.shards import READ_BEFORE_US, Asked, Jobs, Ledger, ShardVerdict
from waterclock.log.port import Log, TopicPartition
from waterclock.model.errors import BackendDown, Busy, NotFound
from waterclock.model.ids import US_PER_MINUTE, Instant
from waterclock.model.time_text import format_rfc3339
from waterclock.wire.names import Names

from .finding import Finding, State, ok

CHECK = "ledger"
EVENTS_MAX = 200_000
_SETTLED_US = 5 * US_PER_MINUTE
"""An hour is looked at so long after its end: then nothing of it is on its way any more."""
_NAMED = 3


def examine(log: Log, names: Names, jobs: Jobs, clock: Clock, generation: int) -> Iterator[Finding]:
    """The finding; nothing where the topics are missing. ``generation``: that of the topics."""
    end = (clock.now() - _SETTLED_US) // HOUR_US * HOUR_US
    try:
        count = _events_since(log, names, end - HOUR_US)
        if count > EVENTS_MAX:
            yield ok(CHECK, f"not looked at: over {EVENTS_MAX} run events since; {_command(end)}")
            return
        ledger = Ledger(log, names, jobs, generation)
        positions, asked = ledger.positions(), Asked(end - HOUR_US, end, names_max=_NAMED)
        yield judge([ledger.judge(shard, asked, positions) for shard in range(ledger.shards)], end)
    except NotFound:
        return
    except (BackendDown, Busy) as trouble:
        yield Finding(CHECK, State.WARN, str(trouble), f"It cannot be judged now; later: {_command(end)}")


def judge(verdicts: list[ShardVerdict], end: Instant) -> Finding:
    """``verdicts``: of every shard, on the hour that ended at ``end``."""
    hour = f"the hour from {format_rfc3339(end - HOUR_US)}"
    hours = [summed for verdict in verdicts for summed in verdict.hours.values()]
    count = sum(summed.faults.total() for summed in hours)
    if count:
        faults = [f"{fault.kind.value}: {fault.run_id}" for summed in hours for fault in summed.named][:_NAMED]
        found = f"{hour} does not balance: {count} faults, such as {', '.join(faults)}"
        return Finding(CHECK, State.FAIL, found, _command(end))
    remarks = [
        f"shard {verdict.shard}: {remark.text}" for verdict in verdicts for remark in verdict.remarks if remark.hides
    ]
    behind = [verdict.shard for verdict in verdicts if verdict.is_whole and verdict.decided_to < end]
    if behind:
        remarks.append(f"shards {behind} have not decided all of it")
    if remarks:
        return Finding(
            CHECK, State.WARN, f"{hour} cannot be judged whole: {'; '.join(remarks[:_NAMED])}", _command(end)
        )
    return ok(CHECK, f"{hour} balances: {sum(summed.owed for summed in hours)} fires owed")


def _command(end: Instant) -> str:
    return f"waterclock ledger verify --from {format_rfc3339(end - HOUR_US)} --to {format_rfc3339(end)}"


def _events_since(log: Log, names: Names, since: Instant) -> int:
    """About how many: markers count too."""
    places = [TopicPartition(names.run_events, number) for number in range(log.partitions(names.run_events))]
    return sum(log.high_watermark(place) - log.offset_at(place, since - READ_BEFORE_US) for place in places)
