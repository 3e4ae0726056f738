"""What is known of a batch's jobs while it is decided: versions, what is decided ahead, intentions that were served.

The batch's own decisions are added as they are made, so that its second command of a job stands on its first. What must
hold: nothing here outlives the batch, and the shard is only read: a batch that is not carried out has never been.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from waterclock.model.errors import Busy, RequestError
from waterclock.model.ids import Instant, split_job_id
from waterclock.model.job import Command, JobStatus, JobVersion, Tier
from waterclock.model.role_state import KeyState
from waterclock.model.stored_spec import NOT_UNDERSTOOD
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timing import JITTER_US_MAX
from waterclock.store.port import TimeIndex

from . import commands
from .gap_owed import OwedInGap
from .keys import Intention, check_body, is_repeat
from .owed import first_tier, in_force
from .shard import Decided, Shard, undecided_gaps

_REVISION_MAX = 2**63 - 1

_TOGETHER_MAX = 100
"""Jobs whose older versions are read in one go: a round may end before it comes to all of a batch."""

REVISIONS_MAX = 1_000
"""Of one job, while fires of the first of them may be undecided. Each command reads and walks through all of these."""


class Known:
    """Versions of one shard's jobs as they stand below each command of a batch, newest first."""

    def __init__(
        self,
        shard: Shard,
        index: TimeIndex,
        limits: dict[str, int],
        found: Iterable[JobVersion | None],
        illegible: Collection[str] = (),
    ) -> None:
        """``limits``: by job, the revision of its first command here; ``found``: the newest version below each, which
        nobody can read of those that are ``illegible``."""
        self._shard = shard
        self._index = index
        self._limits = limits
        self._illegible = illegible
        self._versions = {job: [version] if version else [] for job, version in zip(limits, found, strict=True)}
        self._read_to: dict[str, Instant] = {}
        """By job, as far back as its versions were read, whether that brought any or not."""
        self.decided = ChainMap[str, Decided]({}, shard.decided)
        """No copy: each paused job of the shard stands there, and a round with one command would walk through all."""
        self.served: dict[str, KeyState] = {}
        """Intentions that this batch serves."""
        self.backfills = {(each.job_id, each.told.number): each.told for each in shard.backfills}
        """As they stand, and as this batch turns them."""
        self._new_keys: Counter[str] = Counter()

    def versions(self, job_id: str, edge_at: Instant) -> list[JobVersion]:
        """Newest first, as far back as fires that are due after the edge: to the widest jitter before it.

        More than the newest are read only where the job was revised since then. With gaps: as far back as these.
        Raises RequestError: this release cannot read them.
        """
        self._check_legible(job_id)
        back_to = self._back_to(edge_at)
        if self._needs_older(job_id, back_to):
            self._read_older(job_id, back_to)
        return self._versions[job_id]

    def _check_legible(self, job_id: str) -> None:
        if job_id in self._illegible:
            raise RequestError(
                f"{job_id} was changed by a later release, in a way that this one cannot read",
                hint="Upgrade the dispatchers, and send the command again",
            )

    def _needs_older(self, job_id: str, back_to: Instant) -> bool:
        known = self._versions[job_id]
        if not known or known[-1].stamp_at <= back_to or self._read_to.get(job_id, back_to + 1) <= back_to:
            return False
        return self._shard.has_older(known[-1])

    def _read_older(self, job_id: str, back_to: Instant) -> None:
        """With those of jobs that come next in the batch, in one go: one after the other each of a crowd that was
        paused a moment ago waited for the store, and that was most of what its resume took.

        Only as far back as any command asks. Who asks for more, as by a pause of weeks, has that read for itself alone,
        and so has who comes together with a row that nobody can read.
        """
        usual = self._back_to(self._shard.cursor.due_at - 1)
        jobs = [job_id]
        if usual <= back_to:
            back_to = usual
            others = (each for each in self._versions if each != job_id and self._needs_older(each, usual))
            jobs += islice(others, _TOGETHER_MAX)
        try:
            found = self._index.versions(jobs, back_to)
        except NOT_UNDERSTOOD:
            jobs = [job_id]
            found = self._index.versions(jobs, back_to)
        for each in jobs:
            known = self._versions[each]
            known += [version for version in found.get(each, ()) if version.revision < known[-1].revision]
            self._read_to[each] = back_to

    def _back_to(self, edge_at: Instant) -> Instant:
        if self._shard.gaps:
            edge_at = min(edge_at, self._shard.progress.begins_at - 1)
        return edge_at - JITTER_US_MAX

    def check_room(self, version: JobVersion, edge_at: Instant) -> None:
        """Refuse one version more of a job that has too many of which fires may be undecided. Raises Busy.

        Never its deletion: that ends what makes so many of them, and nothing but another creation can follow it.
        """
        back_to = self._back_to(edge_at)
        count = sum(known.stamp_at > back_to for known in self._versions[version.job_id])
        if count >= REVISIONS_MAX and version.status is not JobStatus.DELETED:
            raise Busy(
                f"{version.job_id} was changed {REVISIONS_MAX} times since {format_rfc3339(back_to)}, and fires from "
                f"then on may still be undecided",
                hint="Change it less often, and send this change again once its shard has caught up",
            )

    def tier_of(self, job_id: str, command: Command, at: Instant) -> Tier:
        """The tier that places what the job has due at ``at`` on the timeline: that of the version in force then, or of
        the first one where jitter brings several together."""
        versions, decided = self.versions(job_id, at - 1), self.decided.get(job_id)
        known = (decided.fires_to_at, decided.edges) if decided else (0, ())
        first = first_tier(versions, at, *known)
        if first is not None:
            return first
        owner = in_force(versions, at) or (versions[0] if versions else None)
        if owner:
            return owner.spec.tier
        return command.spec.tier if command.spec else Tier.HIGH

    def owed_in_gaps(self, job_id: str, versions: Sequence[JobVersion]) -> list[OwedInGap]:
        """What the job still owes in each gap, when its command comes."""
        return undecided_gaps(self._shard.gaps, job_id, versions, self.decided.get(job_id))

    def version(self, job_id: str, revision: int) -> JobVersion | None:
        """The version that a rollback names, by itself: it may be older than all that is known here."""
        self._check_legible(job_id)
        for known in self._versions[job_id]:
            if known.revision == revision:
                return known
        if not 0 < revision < _REVISION_MAX:
            return None
        (found,) = self._index.versions_below([(job_id, revision + 1)])
        return found if found is not None and found.revision == revision else None

    def add(self, version: JobVersion) -> None:
        self._versions[version.job_id].insert(0, version)

    def revision_of(self, job_id: str) -> int:
        """The revision that stands; 0 where there is no such job, or nobody asked about it."""
        versions = self._versions.get(job_id)
        return versions[0].revision if versions else 0

    def first_of(self, intention: Intention, place: commands.Place) -> KeyState | None:
        """The command that served this intention before. Raises KeyReused, Busy."""
        state_key = intention.state_key
        first = self.served.get(state_key) or self._shard.keys.get(state_key)
        if first is not None and is_repeat(first, place):
            check_body(first, intention)
            return first
        self._shard.keys.check_room(state_key, self._new_keys)
        return None

    def serve(self, intention: Intention, state: KeyState) -> None:
        self._new_keys[split_job_id(state.job_id)[0]] += bool(state.key)
        self.served[intention.state_key] = state
