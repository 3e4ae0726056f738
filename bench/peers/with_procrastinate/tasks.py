"""Procrastinate on PostgreSQL."""

from __future__ import annotations

from procrastinate import App, PsycopgConnector

from bench.peers import handler

app = App(connector=PsycopgConnector(conninfo=handler.SERVER, min_size=4, max_size=20))


@app.task(name="noop")
async def noop(index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)
