"""Handlers whose effects can be counted from outside: each call writes one line to a file of the check.

A line is one append of less than a page, so the lines of several workers never mix; it stands there whatever happens
to the worker afterwards. ``EFFECTS_SINK`` names the file.
"""

from __future__ import annotations

import asyncio
import os
import time

from waterclock import App
from waterclock.app import Context

app = App()

_BEFORE_S = 0.05
_AFTER_S = 0.05


@app.handler("effects.async")
async def asynchronous(context: Context) -> str:
    await asyncio.sleep(_BEFORE_S)  # both waits: so that kills land on either side of the effect
    _write(context)
    await asyncio.sleep(_AFTER_S)
    return "done"


@app.handler("effects.sync")
def synchronous(context: Context) -> str:
    time.sleep(_BEFORE_S)
    _write(context)
    time.sleep(_AFTER_S)
    return "done"


def _write(context: Context) -> None:
    sink = os.open(os.environ["EFFECTS_SINK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(sink, f"{context.run_id} {context.attempt} {context.fence}\n".encode())
    finally:
        os.close(sink)
