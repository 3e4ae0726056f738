"""Gets each peer ready: a venv of pinned packages, a Go program, a Java class; done once, until its pins change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.peers.registry import Peer

HERE = Path(__file__).parent
TARGET = HERE / "target"
TEMPORAL = "github.com/temporalio/cli/cmd/temporal@v1.5.1"
"""The newest that `go install` takes: from v1.6 on its go.mod replaces modules by folders of its own checkout."""


class NotInstalled(Exception):
    """A peer cannot be had on this machine; the message is the reason."""


def install(peer: Peer) -> None:
    """Make a peer ready to run, unless it is.

    Raises:
        NotInstalled: a step failed.
    """
    folder = HERE / peer.folder
    for sources, step in _steps(peer.folder):
        pins = hashlib.sha256(
            b"".join((folder / name).read_bytes() for name in sources) + TEMPORAL.encode()
        ).hexdigest()
        done = TARGET / "done" / f"{peer.folder}-{step.__name__.strip('_')}-{pins[:16]}"
        if not done.exists():
            print(f"installing {peer.folder}", flush=True)
            step(folder)
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()


def _steps(folder: str) -> list[tuple[Sequence[str], Callable[[Path], None]]]:
    if folder == "with_river":
        return [(("go.mod", "go.sum", "main.go"), _river)]
    if folder == "with_db_scheduler":
        return [(("pom.xml", "Peer.java"), _db_scheduler)]
    venv: tuple[Sequence[str], Callable[[Path], None]] = (("requirements.txt",), _venv)
    return [venv, ((), _temporal)] if folder == "with_temporal" else [venv]


def venv_of(folder: str) -> Path:
    """Where the packages of a peer live."""
    return TARGET / "venvs" / folder


def _venv(folder: Path) -> None:
    venv = venv_of(folder.name)
    _run([sys.executable, "-m", "venv", "--clear", str(venv)])
    pip = [str(venv / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    _run([*pip, "-r", str(folder / "requirements.txt")])


def _river(folder: Path) -> None:
    _run(["go", "build", "-o", str(TARGET / "bin" / "river"), "."], cwd=folder)


def _temporal(_folder: Path) -> None:
    _run(["go", "install", TEMPORAL], env={**os.environ, "GOBIN": str(TARGET / "bin")})


def _db_scheduler(folder: Path) -> None:
    classes = TARGET / "db_scheduler"
    jars = classes / "lib"
    shutil.rmtree(classes, ignore_errors=True)
    fetch = ["mvn", "--batch-mode", "--quiet", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
    _run([*fetch, f"-DoutputDirectory={jars}"])
    _run(["javac", "-d", str(classes), "-cp", f"{jars}/*", str(folder / "Peer.java")])


def _run(argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    if shutil.which(argv[0]) is None:
        raise NotInstalled(f"there is no {argv[0]} on this machine")
    ended = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        command = " ".join(Path(word).name for word in argv[:3])
        raise NotInstalled(f"{command}: {said[-1] if said else ended.returncode}".replace(str(HERE), "bench/peers"))
