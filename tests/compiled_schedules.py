"""What this process has compiled of schedules and keeps, for tests in which a zone or the compiler becomes another."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from waterclock.model import blocks, cron, moving, zone_prints, zones


def forget_compiled() -> None:
    """Whatever is asked next is compiled anew, as by a process that has just started."""
    for kept in (cron._compile, cron._shared_walk, moving.moving, blocks.blocks_of):
        kept.cache_clear()


def forget_zones() -> None:
    """The same, and what was read of zones."""
    ZoneInfo.clear_cache()
    for kept in (zones.known_zones, zones._chunk, zones._hint, zone_prints._print):
        kept.cache_clear()
    forget_compiled()
