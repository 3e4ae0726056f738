"""What a dispatcher says of its gaps: when one opens, how far it is and when it will be worked off, when it closes."""

from __future__ import annotations

import structlog

from waterclock.model.ids import US_PER_S
from waterclock.model.time_text import format_rfc3339

from .gaps import Gap
from .shard import Shard

log_ = structlog.get_logger("dispatcher")

EVERY_S = 10.0


class GapLog:
    """Of one dispatcher."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[float, int]] = {}
        """By partition: when it was told last, and how many rows were left then."""

    def opened(self, shard: Shard, gap: Gap, now_s: float) -> None:
        self._told.setdefault(shard.partition, (now_s, _rows(shard)))
        log_.info(
            "gap opened: what is on time goes on, this is caught up behind it",
            partition=shard.partition,
            from_time=format_rfc3339(gap.start.due_at),
            to_time=format_rfc3339(gap.to_at),
            rows=gap.row_count,
            gaps=len(shard.gaps),
        )

    def closed(self, shard: Shard, gap: Gap) -> None:
        log_.info(
            "gap closed: all of it is caught up",
            partition=shard.partition,
            from_time=format_rfc3339(gap.start.due_at),
            to_time=format_rfc3339(gap.to_at),
            gaps=len(shard.gaps),
        )
        if not shard.gaps:
            self._told.pop(shard.partition, None)

    def going_on(self, shard: Shard, now_s: float) -> None:
        """Say how far it is, every ``EVERY_S``."""
        rows = _rows(shard)
        told_at_s, rows_then = self._told.setdefault(shard.partition, (now_s, rows))
        if now_s - told_at_s < EVERY_S:
            return
        self._told[shard.partition] = now_s, rows
        per_s = (rows_then - rows) / (now_s - told_at_s)
        log_.info(
            "catching up",
            partition=shard.partition,
            rows_left=rows,
            rows_per_s=round(per_s, 1),
            eta_s=round(rows / per_s) if per_s > 0 else None,
            reached_time=format_rfc3339(shard.gaps[0].position.due_at // US_PER_S * US_PER_S),
        )


def _rows(shard: Shard) -> int:
    return sum(gap.row_count for gap in shard.gaps)
