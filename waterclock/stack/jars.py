"""The jars of both servers: where they lie, and how Maven brings them.

Looked for in this order: the folder that ``WATERCLOCK_STACK__JARS_DIR`` names (with ``kafka/`` and ``cassandra/`` in
it), ``compose/<server>/target/lib`` of a checkout, the user's cache folder. What is missing is fetched by Maven from
the poms under ``compose/`` (Maven verifies the checksums), into a folder that gets its name only when it is complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from .trouble import StackTrouble

_FETCH_TIMEOUT_S = 900
_CHECKOUT = Path(__file__).resolve().parents[2]


class Distribution(NamedTuple):
    """One server: its name, the pinned version, and the jar by which the version is recognised."""

    name: str
    version: str
    main_jar: str


KAFKA = Distribution("kafka", "4.3.1", "kafka_2.13-4.3.1.jar")
CASSANDRA = Distribution("cassandra", "5.0.9", "cassandra-all-5.0.9.jar")


def jars_of(distribution: Distribution) -> Path:
    """The folder with the jars of ``distribution``, fetched through Maven when it is missing. Raises StackTrouble."""
    for folder in _folders(distribution):
        if (folder / distribution.main_jar).exists():
            return folder
    return _fetch(distribution)


def have_jars(distribution: Distribution) -> bool:
    """Whether the jars are here already."""
    return any((folder / distribution.main_jar).exists() for folder in _folders(distribution))


def _folders(distribution: Distribution) -> list[Path]:
    by_hand = os.environ.get("WATERCLOCK_STACK__JARS_DIR")
    if by_hand:
        return [Path(by_hand) / distribution.name]
    return [_CHECKOUT / "compose" / distribution.name / "target" / "lib", _cache() / distribution.name]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waterclock" / "jars"


def _fetch(distribution: Distribution) -> Path:
    """Let Maven copy the jars beside their place, then give the folder its name in one step."""
    pom = _CHECKOUT / "compose" / distribution.name / "pom.xml"
    mvn = shutil.which("mvn")
    if os.environ.get("WATERCLOCK_STACK__JARS_DIR") or mvn is None or not pom.exists():
        raise _cannot_fetch(distribution, "Maven (mvn) is not installed" if mvn is None else "they are not where told")
    place = _folders(distribution)[0]
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="fetching-") as partial:
        _run_maven(distribution, [mvn, *_mirror(Path(partial)), "-f", str(pom)], Path(partial) / "lib")
        shutil.rmtree(place, ignore_errors=True)  # jars of another version
        (Path(partial) / "lib").rename(place)
    return place


def _run_maven(distribution: Distribution, maven: list[str], output: Path) -> None:
    """``dependency:copy-dependencies`` into ``output``, within 15 minutes."""
    goal = ["-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={output}"]
    try:
        done = subprocess.run(  # noqa: S603 - our own pom
            [*maven, *goal], capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _cannot_fetch(distribution, f"Maven did not finish within {_FETCH_TIMEOUT_S} s") from None
    if done.returncode or not (output / distribution.main_jar).exists():
        said = "\n".join((done.stdout + done.stderr).splitlines()[:8])
        raise _cannot_fetch(distribution, f"Maven ended with {done.returncode}:\n{said}\n")


def _mirror(scratch: Path) -> list[str]:
    """Maven's options for the mirror that ``WATERCLOCK_STACK__MAVEN_URL`` names; none where it is not set."""
    url = os.environ.get("WATERCLOCK_STACK__MAVEN_URL")
    if not url:
        return []
    settings = scratch / "settings.xml"
    settings.write_text(
        "<settings><mirrors><mirror><id>waterclock</id><mirrorOf>*</mirrorOf>"
        f"<url>{escape(url)}</url></mirror></mirrors></settings>\n"
    )
    return ["-s", str(settings)]


def _cannot_fetch(distribution: Distribution, why: str) -> StackTrouble:
    by_hand = os.environ.get("WATERCLOCK_STACK__JARS_DIR")
    folder = Path(by_hand) / distribution.name if by_hand else _cache() / distribution.name
    return StackTrouble(
        f"The jars of {distribution.name} {distribution.version} are missing and could not be fetched: {why}",
        hint=(
            "Set WATERCLOCK_STACK__MAVEN_URL to a Maven repository that you can reach and run the command again; "
            f"or copy {distribution.main_jar} with all its dependencies by hand into {folder} (the list: "
            f"mvn -f compose/{distribution.name}/pom.xml dependency:list, on a machine with a network)"
        ),
    )
