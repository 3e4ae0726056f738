"""Whether each kind of run has ended as it should: on the log, in history, and with a dead letter where one belongs.

A kind is shown by the first of its runs of which all three sources agree; a run that ends otherwise than it should is
kept and told, and the kind stays open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from waterclock.model.events import RunStatus
from waterclock.model.ids import make_job_id, parse_run_id
from waterclock.store.port import Reading

from .demo_sight import SeenRun
from .demo_world import Kind


class Proof:
    """What is shown so far of each kind."""

    def __init__(self, world: Sequence[Kind], tenant: str) -> None:
        self._by_job = {make_job_id(tenant, kind.name): kind for kind in world}
        self._candidates: dict[str, SeenRun] = {}
        self._shown: dict[str, SeenRun] = {}
        self._why: dict[str, str] = {}
        self.world = world

    @property
    def complete(self) -> bool:
        """Every kind is shown."""
        return len(self._shown) == len(self.world)

    def shown(self, kind: Kind) -> SeenRun | None:
        """The run that shows ``kind``."""
        return self._shown.get(kind.name)

    def take(self, ended: Sequence[SeenRun]) -> None:
        """Runs that the log says have ended."""
        for run in ended:
            kind = self._by_job.get(run.job_id)
            if kind is None or kind.name in self._candidates or run.origin is not kind.origin:
                continue
            if run.status is kind.ends:
                self._candidates[kind.name] = run
            else:
                self._why[kind.name] = f"{run.run_id} ended {run.status.name}: {run.error}"

    def check(self, store: Reading, letters: Collection[str]) -> list[tuple[Kind, SeenRun]]:
        """Ask history, and the dead letters, about the runs that wait for them. Returns what is shown now."""
        found = []
        for kind in self.world:
            run = self._candidates.get(kind.name)
            if run is None or kind.name in self._shown:
                continue
            why_not = _not_yet(kind, run, store, letters)
            if why_not:
                self._why[kind.name] = why_not
            else:
                self._shown[kind.name] = run
                found.append((kind, run))
        return found

    def missing(self) -> list[str]:
        """A line for each kind that is not shown, with the reason."""
        return [
            f"{kind.name} ({kind.shows}): {self._why.get(kind.name, 'none of its runs ended')}"
            for kind in self.world
            if kind.name not in self._shown
        ]


def _not_yet(kind: Kind, run: SeenRun, store: Reading, letters: Collection[str]) -> str:
    """Why ``run`` does not show ``kind`` yet, or ""."""
    place = parse_run_id(run.run_id)
    row = store.run(place.job_id, place.fire_at, place.series)
    if row is None or row.status is not kind.ends:
        return f"{run.run_id} ended, but history says {row.status.name if row else 'nothing of it'}"
    if kind.ends is RunStatus.FAILED and run.run_id not in letters:
        return f"{run.run_id} failed, but has no dead letter"
    return ""
