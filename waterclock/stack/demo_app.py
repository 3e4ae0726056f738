"""Handlers to try Waterclock out with, before you write your own (``waterclock up --app module:app``)."""

from __future__ import annotations

import asyncio
from typing import Any

from waterclock.app import App, Context

app = App()

_SLEEP_S_MAX = 60.0


@app.handler("demo.ping")
def ping(context: Context) -> str:
    """Does nothing, and says so."""
    return f"pong for {context.fire_time.isoformat()}"


@app.handler("demo.echo")
def echo(context: Context) -> Any:
    """Gives the payload back as its result."""
    return context.json()


@app.handler("demo.sleep")
async def sleep(context: Context) -> str:
    """Takes as many seconds as the payload says (1 where it says nothing), at most a minute; logs it."""
    seconds = context.json()
    seconds = min(_SLEEP_S_MAX, float(1.0 if seconds is None else seconds))
    context.log.info("going to sleep", seconds=seconds)
    await asyncio.sleep(seconds)
    return f"slept {seconds:g} s"


@app.handler("demo.fail")
def fail(context: Context) -> None:
    """Fails every attempt, and says so: its run ends FAILED, with a dead letter."""
    print(f"attempt {context.attempt} is about to fail")  # noqa: T201 - a handler may: its run keeps the line
    raise RuntimeError(f"this job fails on purpose (attempt {context.attempt})")
