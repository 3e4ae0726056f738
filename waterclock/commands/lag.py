"""``waterclock lag``: how far behind each group is, in the columns of ``kafka-consumer-groups``."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.log.kafka_lag import GroupLag, group_lags

from .connect import here
from .output import OutputOption, say, show_rows

app = typer.Typer(add_completion=False, help="How far behind each group is.")


@app.command()
def lag(
    group: Annotated[list[str] | None, typer.Option("--group", help="Only these (all under the prefix)")] = None,
    output: OutputOption = None,
) -> None:
    """Show the lag of each group, topic and partition; the sum goes to stderr."""
    kafka = here().kafka
    lags = group_lags(kafka.bootstrap, kafka.prefix, group or (), extra=kafka.properties)
    show_rows([each._asdict() for each in lags], GroupLag._fields, output)
    if lags:
        say(f"lag in all: {sum(each.lag for each in lags)}")
    elif group:
        say(f"no position of {', '.join(group)}: `waterclock lag` shows the groups there are")
    else:
        say(f"no groups under {kafka.prefix!r}: do the roles run? `waterclock status`")
