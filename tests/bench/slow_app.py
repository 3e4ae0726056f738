"""A handler that takes ten milliseconds of its slot, and none of the processor."""

from __future__ import annotations

import asyncio

from waterclock import App, Context

app = App()
TAKES_S = 0.010


@app.handler("bench.slow")
async def slow(_: Context) -> None:
    await asyncio.sleep(TAKES_S)
