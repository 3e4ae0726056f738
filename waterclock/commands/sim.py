"""``waterclock sim``: play the whole system in one process from one seed. It belongs to a checkout, not to an install.

The simulation is test code (``tests/simulation``): it patches the product, and the wheel must not bring that along.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from waterclock.model.errors import RequestError

app = typer.Typer(add_completion=False, help="Play the whole system from one seed.")

_CHECKOUT = Path(__file__).resolve().parents[2]


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def sim(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="--seed S: replay one; --seeds N: hunt on all cores; --shrink, --plan FILE; --help: all"),
    ] = None,
) -> None:
    """Replay a seed of the simulation and tell its story, or hunt through fresh ones. Needs a checkout."""
    if not (_CHECKOUT / "tests" / "simulation").is_dir():
        raise RequestError(
            "the simulation is part of a checkout, and this Waterclock was installed without one",
            hint="Clone the repository, `make test-fast` there once, then `.venv/bin/waterclock sim --seeds 100`",
        )
    # In the caller's folder, because the files that it names are its own; but not with that folder's modules (-P).
    command = [sys.executable, "-P", "-m", "tests.simulation", *(words or [])]
    path = os.pathsep.join(filter(None, (str(_CHECKOUT), os.environ.get("PYTHONPATH", ""))))
    env = {**os.environ, "PYTHONPATH": path}
    raise typer.Exit(subprocess.run(command, env=env, check=False).returncode)  # noqa: S603 - our own program
