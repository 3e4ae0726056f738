"""``waterclock dag``: a Dag in a file, checked and drawn, without a server; and DagRuns, looked at and acted on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from waterclock.dags import spec_of_dag
from waterclock.model.dag import DagSpec, Node
from waterclock.model.dag_levels import levels, remarks
from waterclock.model.document import dag_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import make_job_id
from waterclock.model.job import JobSpec

from .dag_acts import cancel, pause, rerun, resume
from .dag_drawing import draw
from .dag_runs import runs, show, stuck
from .documents import read_document
from .output import Format, OutputOption, default_format, say, show_one, show_rows
from .visible import visible_lines

app = typer.Typer(
    add_completion=False, help="Check and draw Dags; look at DagRuns, and act on them.", no_args_is_help=True
)

app.command("show")(show)
app.command("runs")(runs)
app.command("stuck")(stuck)
app.command("cancel")(cancel)
app.command("pause")(pause)
app.command("resume")(resume)
app.command("rerun")(rerun)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A job document, JSON or YAML; - is stdin")]


@app.callback()
def dag() -> None:
    """Check and draw Dags; look at DagRuns, and act on them."""


@app.command()
def lint(file: _File, output: OutputOption = None) -> None:
    """Say what a door would refuse about a Dag (exit code 2), and what may not be meant."""
    spec, found = _read(file)
    odd = [{"node": remark.node, "remark": remark.said} for remark in remarks(found)]
    arrows = sum(len(node.after) for node in found.nodes)
    say(f"{len(found.nodes)} nodes, {arrows} arrows, {len(levels(found))} levels: a door takes it")
    if spec is None:
        say("note: it has no schedule yet; a job needs one")
    show_rows(odd, ("node", "remark"), output)


@app.command()
def render(file: _File, output: OutputOption = None) -> None:
    """Draw a Dag level by level: each node with its parents, its rule and what it is mapped over.

    As JSON each node has all that its document says; what is absent is the job's, or the default.
    """
    _, found = _read(file)
    if (output or default_format()) is Format.TABLE:
        typer.echo(visible_lines("\n".join(draw(found))))
        return
    said = {words["name"]: words for words in dag_document(found)["nodes"]}
    rows = [_row(number, node, said[node.name]) for number, level in enumerate(levels(found), 1) for node in level]
    show_rows(rows, (), output) if len(rows) > 1 else show_one(rows[0], output)


def _row(level: int, node: Node, words: Mapping[str, Any]) -> dict[str, Any]:
    """A node and what its document says; its parents and its rule are there even where that says none."""
    rest = {key: value for key, value in words.items() if key != "name"}
    parents_and_rule = {"after": list(node.after), "trigger_rule": node.trigger_rule.value}
    return {"level": level, "node": node.name, **parents_and_rule, **rest}


def _read(file: Path) -> tuple[JobSpec | None, DagSpec]:
    """The job in the file, None where it says no schedule, and its Dag. The value of ``dag`` alone will do."""
    document = read_document(file)
    if "dag" not in document and "nodes" in document:
        document = {"dag": document}
    if not isinstance(document.get("dag"), Mapping):
        raise RequestError("This job is no Dag", pointer="/dag", hint='Such as {"dag": {"nodes": [...]}}')
    name = document.pop("name", None)
    spec, has_start = spec_of_dag(document, make_job_id("default", name if isinstance(name, str) else "dag"))
    assert spec.dag is not None  # the document has one
    return spec if has_start else None, spec.dag
