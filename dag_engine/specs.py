"""What DagRuns are made of: the spec and the graph of one version of a job, read from the immutable ``job_versions``.

Asked for by many DagRuns and read once. What must hold: a version that is kept is never asked for again while a DagRun
of it is open (each holds its own), so the bound costs reading and nothing else. How it fails: BackendDown, and whoever
waits for a version goes on waiting; a version that is not there is said to be gone, for good: rows are written, and
acknowledged by a quorum, before the run that names them. One that this release does not understand is not gone: its
DagRuns wait for the release that wrote it, the log line names it, and nobody else waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import structlog

from waterclock.model.dag_graph import Graph
from waterclock.model.dag_work import topics_of
from waterclock.model.ids import Instant
from waterclock.model.job import JobSpec, JobVersion, Tier
from waterclock.store.in_parts import read_in_parts

NODES_MAX = 100_000
"""Nodes of all versions that are kept, about 1 KB each; the least lately used ones are forgotten."""

READ_MAX = 100
"""Versions that one turn reads."""

_WHY_MAX = 200

_log = structlog.get_logger()


class Versions(Protocol):
    """The part of the store that is needed here."""

    def versions_below(self, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        """For each (job id, revision): the newest version with a smaller revision, or None. Raises BackendDown."""
        ...


class Made(NamedTuple):
    """One version of a Dag."""

    spec: JobSpec
    graph: Graph
    timeout_us: Instant
    lanes: tuple[tuple[Tier, str], ...]
    """The tiers and pools to which its nodes' work goes."""


class _Strange(NamedTuple):
    """A version that cannot be understood."""

    why: str


class Specs:
    """Versions by (job id, revision)."""

    def __init__(self, store: Versions) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, int], Made | _Strange | None] = OrderedDict()
        self._wanted: dict[tuple[str, int], None] = {}
        self._node_count = 0

    @property
    def wanting(self) -> bool:
        """Whether somebody waits for a version."""
        return bool(self._wanted)

    def knows(self, job_id: str, revision: int) -> bool:
        """Whether this version was read and is understood; else it will be read, or is waited for."""
        place = job_id, revision
        if place in self._kept:
            self._kept.move_to_end(place)
            return not isinstance(self._kept[place], _Strange)
        self._wanted[place] = None
        return False

    def of(self, job_id: str, revision: int) -> Made | None:
        """A version that is known; None where it is gone, or no Dag."""
        found = self._kept[job_id, revision]
        return found if isinstance(found, Made) else None

    def read(self) -> None:
        """Read what is wanted, a bounded part of it. Raises BackendDown."""
        asked = list(self._wanted)[:READ_MAX]
        parts = read_in_parts(asked, self._made, _strange)
        for place, made in zip(asked, (each for part in parts for each in part), strict=True):
            del self._wanted[place]
            if made is None:
                _log.error("no such version of a Dag", job_id=place[0], revision=place[1])
            elif isinstance(made, _Strange):
                what = "a version of a Dag is not understood: its DagRuns wait for a later release"
                _log.error(what, job_id=place[0], revision=place[1], reason=made.why)
            self._keep(place, made)

    def _made(self, asked: Sequence[tuple[str, int]]) -> list[Made | _Strange | None]:
        """Raises BackendDown, and what decoding raises."""
        found = self._store.versions_below([(job_id, revision + 1) for job_id, revision in asked])
        return [
            _made(version) if version is not None and version.revision == revision else None
            for (_, revision), version in zip(asked, found, strict=True)
        ]

    def _keep(self, place: tuple[str, int], made: Made | _Strange | None) -> None:
        self._kept[place] = made
        self._node_count += _size(made)
        while self._node_count > NODES_MAX and len(self._kept) > READ_MAX:
            _, gone = self._kept.popitem(last=False)
            self._node_count -= _size(gone)


def _made(version: JobVersion) -> Made | None:
    spec = version.spec
    if spec.dag is None:
        return None
    return Made(spec, Graph(spec.dag), spec.dag.timeout_us, topics_of(spec))


def _strange(_place: tuple[str, int], odd: Exception) -> list[Made | _Strange | None]:
    return [_Strange(f"{type(odd).__name__}: {odd}"[:_WHY_MAX])]


def _size(made: Made | _Strange | None) -> int:
    return len(made.graph.nodes) if isinstance(made, Made) else 1
