"""Many commands by one request: in order, at a rate, within a bound of time; what is left the client asks for again.

Why not in the background: whoever started it would have to find out how it ended, also after a restart of ours. A
request that says how far it came, and can be made again, needs none of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.events import Answered
from waterclock.model.job import Command

from .orders import give_all
from .problems import Problem
from .services import Services

WITHIN_S = 8.0
"""A request goes on for so long, and one slice more: clients wait for an answer for 10 s."""

SLICES_PER_S = 4


class Sent(NamedTuple):
    """What became of the first ``len(answers)`` commands; the others were not sent."""

    answers: list[Answered | None]


async def send_paced(
    services: Services, commands: Sequence[Command], rate_per_s: float, within_s: float | None = None
) -> Sent:
    """Send as many as the time allows, ``rate_per_s`` of them each second. Raises BackendDown, Problem.

    ``within_s``: what is left of the request's time; None: all of it.
    """
    within_s = WITHIN_S if within_s is None else within_s
    slice_size = max(1, min(round(rate_per_s / SLICES_PER_S), services.settings.api.queue_max))
    clock = services.clock
    began_s = clock.monotonic_s()
    answers: list[Answered | None] = []
    while len(answers) < len(commands) and clock.monotonic_s() - began_s < within_s:
        try:
            answers += await give_all(services, commands[len(answers) : len(answers) + slice_size])
        except Problem:  # there is no room now: what was sent is told, and this slice is left like those behind it
            if not answers:
                raise
            break
        due_s = began_s + len(answers) / rate_per_s
        if due_s >= began_s + within_s:
            break  # the next is not due in time: what is left the client hears of now
        if len(answers) < len(commands):
            await asyncio.sleep(max(0.0, due_s - clock.monotonic_s()))
    return Sent(answers)
