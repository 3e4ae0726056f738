"""Overlap policies and limits, as their page says them: a plain model of one job's runs. Imports nothing of ours.

Limits are a dict: ``overlap`` (a word), ``max_concurrent``, ``max_per_key``, ``max_held`` (0: not given), ``key`` (a
JSON pointer, "": none). Whoever asks the model says what happens, in the order in which the owner of the job learns of
it; the model answers with what is decided: ``("PENDING" | "HELD" | "SKIPPED" | "STOP", run id, reason)``.
"""

HELD_DEFAULT = 100
HELD_MOST = 1_000
STOPPERS = ("cancel_other", "terminate_other")


def is_limited(limits):
    """Whether the job's runs are decided here at all."""
    return limits["overlap"] != "allow" or bool(limits["max_concurrent"]) or bool(limits["key"])


def width(limits):
    """How many runs of the job may be open; None: any number."""
    if limits["max_concurrent"]:
        return limits["max_concurrent"]
    return 1 if limits["overlap"] != "allow" and not limits["key"] else None


def width_of_key(limits):
    """How many runs with the same key may be open; None: any number."""
    return (limits["max_per_key"] or 1) if limits["key"] else None


def key_of(limits, payload):
    """Pointer and value in a payload, which is a decoded one; None where the limits have no key."""
    if not limits["key"]:
        return None
    for name in limits["key"].split("/")[1:]:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return limits["key"], payload


class Job:
    """``waiting`` and ``open`` are lists of dicts ``{"run", "at", "payload", "key", "by"}``, in the order of their
    decisions.

    ``key``: None of a run whose limits have no concurrency key: whoever waits goes by the newest ones, whoever is open
    by those that it went out by. ``by``: ``schedule`` or ``people``.
    """

    def __init__(self, limits):
        self.limits = limits
        self.waiting = []
        self.open = []
        self.stopping = set()
        self.paused = False

    def arrives(self, run, at, payload, by, limits):
        """A run is due, of a version with these limits."""
        if not is_limited(limits):
            return [("PENDING", run, "")]
        key = key_of(limits, payload)
        new = {"run": run, "at": at, "payload": payload, "key": key, "by": by}
        queue = [each for each in self.waiting if not limits["key"] or each["key"] == key]
        is_behind = any(self._may_leave(each) for each in queue) or self._first() is not None
        if not is_behind and self._fits(new, limits):
            self.open.append(new)
            return [("PENDING", run, "")]
        word = limits["overlap"]
        if word == "skip" or (word == "buffer_one" and queue):
            return [("SKIPPED", run, "overlap")]
        if word in STOPPERS:
            return self._stop_for(new, queue, limits)
        most = HELD_MOST if word in ("sequential", "buffer_one") else limits["max_held"] or HELD_DEFAULT
        if len(self.waiting) >= most:
            return [("SKIPPED", run, "overlap max_held")]
        self.waiting.append(new)
        return [("HELD", run, "concurrency" if word == "allow" else "overlap")]

    def ended(self, *those):
        """The log says that these runs are final; the owner learns of all of them at once."""
        self.open = [each for each in self.open if each["run"] not in those]
        self.stopping -= {*those}
        return self._leave()

    def cancelled(self, run):
        """Somebody cancels this run while it waits."""
        self.waiting = [each for each in self.waiting if each["run"] != run]
        return self._leave()

    def is_asked(self, run):
        """Somebody asks this open run to end, and it takes its time."""
        self.stopping.add(run)
        return []

    def pauses(self):
        self.paused = True
        return []

    def resumes(self):
        self.paused = False
        return self._leave()

    def changes(self, limits):
        """The job has other limits from now on, and so have those that wait."""
        self.limits = limits
        self.waiting = [{**each, "key": key_of(limits, each["payload"])} for each in self.waiting]
        return self._leave()

    def is_deleted(self, limits):
        """``limits``: such as limit nothing."""
        gone = [("SKIPPED", each["run"], "withdrawn") for each in self.waiting]
        self.waiting = []
        self.limits = limits
        self.paused = False
        return gone

    def _stop_for(self, new, queue, limits):
        beside = queue + [each for each in self.open if not limits["key"] or each["key"] == new["key"]]
        newer = [each for each in beside if each["by"] == "schedule" and each["at"] > new["at"]]
        if new["by"] == "schedule" and newer:  # the newest fire wins, also over one that is caught up after it
            return [("SKIPPED", new["run"], "overlap")]
        found = [("SKIPPED", each["run"], "overlap") for each in queue]
        self.waiting = [each for each in self.waiting if each not in queue] + [new]
        of_key = [each for each in self.open if each["key"] == new["key"]]
        most, most_of_key = width(limits), width_of_key(limits)
        wants = 0
        among = []
        if new["key"] is not None and most_of_key is not None and len(of_key) >= most_of_key:
            among, wants = of_key, 1 + len(of_key) - most_of_key
        elif most is not None and len(self.open) >= most:
            among, wants = self.open, len(self.waiting) + len(self.open) - most
        wants -= sum(each["run"] in self.stopping for each in among)
        for each in sorted(among, key=lambda each: (each["at"], each["run"])):
            if wants > 0 and each["run"] not in self.stopping:
                wants -= 1
                self.stopping.add(each["run"])
                found.append(("STOP", each["run"], limits["overlap"]))
        return [*found, ("HELD", new["run"], "overlap")]

    def _fits(self, run, limits):
        most, most_of_key = width(limits), width_of_key(limits)
        if most is not None and len(self.open) >= most:
            return False
        beside = sum(each["key"] == run["key"] for each in self.open)
        return run["key"] is None or most_of_key is None or beside < most_of_key

    def _may_leave(self, run):
        return not self.paused or run["by"] == "people"

    def _first(self):
        return next((each for each in self.waiting if self._may_leave(each) and self._fits(each, self.limits)), None)

    def _leave(self):
        found = []
        while (run := self._first()) is not None:
            self.waiting.remove(run)
            self.open.append(run)
            found.append(("PENDING", run["run"], ""))
        return found
