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


class JarSource(NamedTuple):
    """Where jars come from. ``folder``: the only place to look, nothing is fetched; ``maven_url``: a mirror."""

    folder: Path | None = None
    maven_url: str = ""

    def folders(self, distribution: Distribution) -> list[Path]:
        """The places to look in, in order; the first is where fetched jars go."""
        if self.folder is not None:
            return [self.folder / distribution.name]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waterclock" / "jars"
        return [_CHECKOUT / "compose" / distribution.name / "target" / "lib", cache / distribution.name]


def jars_of(distribution: Distribution, source: JarSource) -> Path:
    """The folder with the jars of ``distribution``, fetched through Maven when it is missing. Raises StackTrouble."""
    for folder in source.folders(distribution):
        if (folder / distribution.main_jar).exists():
            return folder
    return _fetch(distribution, source)


def have_jars(distribution: Distribution, source: JarSource) -> bool:
    """Whether the jars are here already."""
    return any((folder / distribution.main_jar).exists() for folder in source.folders(distribution))


def _fetch(distribution: Distribution, source: JarSource) -> Path:
    """Let Maven copy the jars beside their place, then give the folder its name in one step. Raises StackTrouble."""
    pom = _CHECKOUT / "compose" / distribution.name / "pom.xml"
    mvn = shutil.which("mvn")
    if source.folder is not None or not pom.exists():
        raise _cannot_fetch(distribution, source, f"they are not in {source.folders(distribution)[-1]}")
    if mvn is None:
        raise _cannot_fetch(distribution, source, "Maven (mvn) is not installed")
    place = source.folders(distribution)[0]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="fetching-") as partial:
            output = Path(partial) / "lib"
            why_not = _run_maven([mvn, *_mirror(source.maven_url, Path(partial)), "-f", str(pom)], output)
            if why_not or not (output / distribution.main_jar).exists():
                raise _cannot_fetch(distribution, source, why_not or "Maven brought something else")
            if not (place / distribution.main_jar).exists():  # else another start was quicker, and runs from them now
                shutil.rmtree(place, ignore_errors=True)  # jars of another version
                output.rename(place)
    except OSError as error:  # the disk is full, or the checkout is somebody else's
        raise _cannot_fetch(distribution, source, str(error)) from error
    return place


def _run_maven(maven: list[str], output: Path) -> str:
    """``dependency:copy-dependencies`` into ``output``, within 15 minutes. Returns why it failed, or ""."""
    goal = ["-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={output}"]
    try:
        done = subprocess.run(  # noqa: S603 - our own pom
            [*maven, *goal], capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not finish within {_FETCH_TIMEOUT_S} s"
    said = "\n".join((done.stdout + done.stderr).splitlines()[:8])
    return f"Maven ended with {done.returncode}:\n{said}\n" if done.returncode else ""


def _mirror(url: str, scratch: Path) -> list[str]:
    """Maven's options for a mirror of everything at ``url``; none where it is ""."""
    if not url:
        return []
    settings = scratch / "settings.xml"
    settings.write_text(
        "<settings><mirrors><mirror><id>waterclock</id><mirrorOf>*</mirrorOf>"
        f"<url>{escape(url)}</url></mirror></mirrors></settings>\n"
    )
    return ["-s", str(settings)]


def _cannot_fetch(distribution: Distribution, source: JarSource, why: str) -> StackTrouble:
    return StackTrouble(
        f"The jars of {distribution.name} {distribution.version} are missing and could not be fetched: {why}",
        hint=(
            "Set WATERCLOCK_STACK__MAVEN_URL to a Maven repository that you can reach and run the command again; "
            f"or copy {distribution.main_jar} with all its dependencies by hand into "
            f"{source.folders(distribution)[-1]} (the list: mvn -f compose/{distribution.name}/pom.xml "
            "dependency:list, on a machine with a network)"
        ),
    )
