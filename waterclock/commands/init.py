"""``waterclock init``: topics, rights and tables on clusters of your own; ``--plan`` prints them first."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import orjson
import typer

from waterclock.clusters import render
from waterclock.clusters.making import make
from waterclock.clusters.plan import BROKER_DEFAULT, Plan, plan_of
from waterclock.model.errors import RequestError
from waterclock.settings import Settings, load_settings

from .connect import here
from .failing import CommandFailed
from .output import Format, say, show_rows

app = typer.Typer(add_completion=False, help="Make topics, rights and tables on clusters of your own.")


class PlanFormat(StrEnum):
    """The forms of a plan."""

    TABLE = "table"
    JSON = "json"
    CQL = "cql"
    STRIMZI = "strimzi"
    KAFKA = "kafka"


@app.command()
def init(
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be made, and make nothing")] = False,
    output: Annotated[
        PlanFormat | None,
        typer.Option("-o", "--output", help="With --plan: who is to read it; else table or json", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    principal: Annotated[
        str, typer.Option(help="What the cluster calls a role's user: {prefix} and {role} are filled in")
    ] = "{prefix}-{role}",
    strimzi_cluster: Annotated[
        str, typer.Option(help="The Kafka resource that Strimzi's resources belong to")
    ] = "kafka",
) -> None:
    """Make what is missing on Kafka and Cassandra: topics, rights (where there is an authorizer), tables.

    What exists is kept as it is; where it differs from the plan, that is said. Exit code 1: one of the differences is
    such that Waterclock cannot live with it.
    """
    settings = load_settings() if plan else here()
    wanted = plan_of(settings)
    names = named(settings, principal)
    if plan:
        _print_plan(wanted, names, output, strimzi_cluster)
        return
    if output not in (None, PlanFormat.TABLE, PlanFormat.JSON):
        raise RequestError(f"-o {output} is a form of a plan", hint=f"waterclock init --plan -o {output}")
    _confirm(settings, wanted, yes=yes)
    _make(wanted, settings, names, Format(output.value) if output else None)


def named(settings: Settings, template: str) -> render.Principal:
    """The names of the roles' users, from a template. Raises RequestError."""
    try:
        template.format(prefix="p", role="r")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise RequestError(f"--principal {template!r} is no template", hint="Such as 'CN={prefix}-{role}'") from None
    return lambda role: template.format(prefix=settings.kafka.prefix, role=role)


def _print_plan(plan: Plan, named: render.Principal, form: PlanFormat | None, strimzi_cluster: str) -> None:
    match form or (PlanFormat.TABLE if sys.stdout.isatty() else PlanFormat.JSON):
        case PlanFormat.JSON:
            typer.echo(orjson.dumps(render.document(plan, named), option=orjson.OPT_INDENT_2).decode())
        case PlanFormat.CQL:
            typer.echo(render.cql(plan))
        case PlanFormat.STRIMZI:
            typer.echo(render.strimzi(plan, named, strimzi_cluster))
        case PlanFormat.KAFKA:
            typer.echo(render.kafka(plan, named))
        case PlanFormat.TABLE:
            _plan_tables(plan, named)


def _plan_tables(plan: Plan, named: render.Principal) -> None:
    copies = "brokers' default" if plan.replication == BROKER_DEFAULT else plan.replication
    topics = [
        {
            "topic": spec.name,
            "partitions": spec.partitions,
            "copies": copies,
            "config": [f"{key}={value}" for key, value in spec.config.items()],
        }
        for spec in plan.topics
    ]
    rights = [
        {
            "user": f"User:{named(acl.role)}",
            "resource": acl.resource.value,
            "name": f"{acl.name}*" if acl.prefixed else acl.name,
            "operations": ", ".join(acl.operations),
        }
        for acl in plan.acls
    ]
    show_rows(topics, ("topic", "partitions", "copies", "config"), Format.TABLE)
    typer.echo()
    show_rows(rights, ("user", "resource", "name", "operations"), Format.TABLE)
    typer.echo()
    typer.echo(render.cql(plan))


def _confirm(settings: Settings, plan: Plan, *, yes: bool) -> None:
    kafka, cassandra = settings.kafka, settings.cassandra
    say(
        f"{len(plan.topics)} topics and {len(plan.acls)} rights on {kafka.bootstrap} under {kafka.prefix!r}, keyspace "
        f"{cassandra.keyspace} on {', '.join(cassandra.contact_points)}:{cassandra.port}: what is missing will be made"
    )
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError(
            "There is nobody to ask", hint="waterclock init --plan shows it, waterclock init --yes makes it"
        )
    if not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)


def _make(plan: Plan, settings: Settings, named: render.Principal, form: Format | None) -> None:
    steps = list(make(plan, settings, named))
    shown = [step._asdict() for step in steps]
    show_rows(shown, ("what", "name", "result", "note", "next_step"), form)
    counts = {result: sum(step.result == result for step in steps) for result in ("made", "kept", "differs", "skipped")}
    say(", ".join(f"{count} {result}" for result, count in counts.items() if count))
    serious = sum(step.serious for step in steps)
    if serious:
        raise CommandFailed(
            f"{serious} differences that Waterclock cannot live with; nothing that exists was changed",
            hint="The last column says what would end each",
        )
