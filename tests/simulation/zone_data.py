"""A zone of the product's that may go while a play lasts, for every process at once. The judges still know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock
from zoneinfo import ZoneInfoNotFoundError

from waterclock.dispatcher import lap

from tests.compiled_schedules import forget_compiled
from waterclock.model import zone_prints, zones

from .zone_people import ZONE


@contextmanager
def zone_that_may_go() -> Iterator[Callable[[], None]]:
    """What is given takes it away until the end."""
    with ExitStack() as until_the_end:
        yield lambda: _take_away(until_the_end)


def _take_away(until_the_end: ExitStack) -> None:
    known = zones.known_zones() - {ZONE}
    for module in (zones, zone_prints, lap):
        until_the_end.enter_context(mock.patch.object(module, "known_zones", return_value=known))
    until_the_end.enter_context(mock.patch.object(zone_prints, "_print", _printed_without(zone_prints._print)))
    until_the_end.callback(forget_compiled)
    forget_compiled()


def _printed_without(right: Callable[[str, int], str]) -> Callable[[str, int], str]:
    def printed(zone: str, year: int) -> str:
        if zone == ZONE:
            raise ZoneInfoNotFoundError(f"No time zone found with key {zone}")
        return right(zone, year)

    return printed
