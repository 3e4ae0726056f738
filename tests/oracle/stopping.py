"""I7: a fire that stops others asks the oldest, as many as it needs and no more. Imports nothing of ours.

A fire of a job with ``cancel_other`` or ``terminate_other`` asks in the round in which it is HELD, and before that: so
what was asked since the job's last HELD was asked for the sake of this one. Its owner goes by what it has read. What it
asked and handed out itself it knows, of ends and of what people cancel no more than the log. So it may take for open
what has ended, and ask that once more, which counts for nothing; and never does it ask too few.
"""

import collections
import math
import typing

from . import policies
from .limits import limits_of, stops_others

UNREAD = 60_000_000
"""Microseconds after which an owner has surely read an end."""


class Scope(typing.NamedTuple):
    """Among which runs a fire looks for room. ``surely``: those that its owner knows to be open; ``perhaps``: those
    too that it may not follow, or whose end it may not have read. ``most`` may be open, so many ``want`` to be, this
    one included; no version has let more than ``widest`` be open."""

    surely: list
    perhaps: int
    most: int
    want: int
    widest: float

    @property
    def is_full(self):
        """Whatever its owner has read."""
        return len(self.surely) >= self.most


class Stops:
    """Of one job: who is asked to end. ``ages``: open run -> what comes first in order of age; ``asked``: open ones, by
    whomever; ``by_policy``: those of them that a fire has asked. ``new``: run id -> (policy, group) of what was asked
    since the last HELD: also a run that this has ended at once, because it had not begun."""

    def __init__(self):
        self.ages = {}
        self.asked = set()
        self.by_policy = set()
        self.new = {}
        self.ended = []
        self.specs = []

    def opened(self, event):
        """A run went out."""
        self.ages[event["run_id"]] = event["pending"]["fire_at"], event["run_id"]

    def ask(self, event, group):
        """Its end was asked for, as the log has it."""
        run_id = event["run_id"]
        self.asked.add(run_id)
        if event["reason"] in ("cancel_other", "terminate_other") and run_id in self.ages:
            self.by_policy.add(run_id)
            self.new[run_id] = event["reason"], group

    def close(self, run_id, group, stamp):
        """It has ended."""
        if run_id in self.ages:
            self.ended.append((stamp, group))
        if run_id not in self.new:
            self._forget(run_id)

    def held(self, job, spec, group, stamp):
        """What is wrong with what was asked for the sake of a run that waits from now on, with these limits."""
        new, self.new = self.new, {}
        said = policies.beside(spec)["overlap"]
        yield from (
            f"{each} was asked to end by {word}, its job says {said}" for each, (word, _) in new.items() if word != said
        )
        if stops_others(spec):
            found = [[*self._wrong(scope, new)] for scope in self._scopes(job, spec, group, new, stamp)]
            yield from found[0] if found and all(found) else ()
        for run_id in new.keys() - job.alive:
            self._forget(run_id)

    def at_rest(self):
        """What was asked, and nobody waited for it."""
        yield from (
            f"{each} was asked to end by {word}, and nobody waits for that" for each, (word, _) in self.new.items()
        )

    def _forget(self, run_id):
        self.ages.pop(run_id, None)
        self.asked.discard(run_id)
        self.by_policy.discard(run_id)

    def _scopes(self, job, spec, group, new, stamp):
        """Where its owner may have found no room: among those of its key if these are too many, else among all. Where
        the log has fewer of its key than may be, it may not have read their ends."""
        most, most_of_key = limits_of(spec)
        groups = job.open | {each: of for each, (_, of) in new.items()}
        ended = collections.Counter(of for at, of in self.ended if at > stamp - UNREAD)
        if group is not None:
            beside = [each for each, of in groups.items() if of == group]
            widest = max((limits_of(each)[1] or 0 for each in [spec, *self.specs] if each), default=0)
            of_key = Scope(beside, len(beside) + ended[group], most_of_key, 1, widest)
            yield of_key
            if of_key.is_full:
                return
        if most is not None:
            widest = max((limits_of(each)[0] if each else None) or math.inf for each in [spec, *self.specs])
            perhaps = len(job.alive | new.keys()) + ended.total()
            yield Scope([*groups], perhaps, most, len(job.held) + 1, widest)

    def _wrong(self, scope, new):
        strange = [each for each in new if each not in scope.surely]
        if strange:
            yield f"{strange[0]} was asked to end, which takes no room of it"
            return
        rest = [each for each in scope.surely if each not in self.asked]
        last = max((self.ages[each] for each in new), default=None)
        older = [each for each in rest if last is not None and self.ages[each] < last]
        if older:
            yield f"{last[1]} was asked to end for it, and {older[0]} is older"
        asked = [each for each in scope.surely if each in self.by_policy]
        # More are open than may be only where limits were wider once.
        most = scope.want + max(0, min(scope.perhaps, scope.widest) - scope.most)
        if new and len(asked) > most:
            yield f"{len(asked)} runs were asked to end, {most} have to: {', '.join(asked)}"
        least = min(len(scope.surely), scope.want + len(scope.surely) - scope.most)
        if scope.is_full and len(scope.surely) - len(rest) < least:
            yield f"{len(scope.surely) - len(rest)} of {len(scope.surely)} open runs are asked to end, {least} have to"
