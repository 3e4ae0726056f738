"""Kubernetes CronJobs in YAML, several documents or a List: the container's command becomes a program of ours.

No image is pulled and no pod is made: ``command`` and ``args`` run on a worker's host. What a CronJob says beyond its
schedule, command, retries and deadlines is named, with its line. How it fails: RequestError where the file is no YAML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S
from waterclock.model.time_text import format_duration

from .day_fields import kubernetes_days_differ
from .gathering import Gathering
from .naming import name_of
from .yaml_parts import Part, read_parts

TIMEOUT, _TIMEOUT_S = "1d", 86_400
"""The longest that a program may run here."""

_BACKOFF = {"backoff": "exponential", "delay": "10s", "max_delay": "6m", "jitter": False}
"""As Kubernetes waits between the pods of a Job."""

_BACKOFF_LIMIT = 6
_ATTEMPTS_MAX = 100
_DEADLINE_S_MIN = 60
"""What is late by less is no misfire here: it runs whatever the window of catch-up is."""
_DEADLINE_S_MAX = 365 * 86_400
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)\Z", re.DOTALL)
_EVERY = re.compile(r"@every\s+((?:\d+[hms])+)\Z")
_PARTS = re.compile(r"(\d+)([hms])")
_UNITS_S = {"h": 3_600, "m": 60, "s": 1}
_ACTIVE = {"", "false", "no", "off", "n"}
"""``suspend`` of one that is not: Kubernetes' reader knows the words of YAML 1.1, ``yes`` and ``on`` for true too."""

_OVERLAP = {"Forbid": "skip", "Replace": "cancel_other"}
_SPEC = {"schedule", "timeZone", "suspend", "concurrencyPolicy", "startingDeadlineSeconds", "jobTemplate"}
_HISTORY = {"successfulJobsHistoryLimit", "failedJobsHistoryLimit"}
_JOB_SPEC = {"backoffLimit", "activeDeadlineSeconds", "parallelism", "completions", "template"}
_POD = {"containers", "initContainers", "restartPolicy"}
_METADATA = {"name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"}
_CONTAINER = {"name", "image", "command", "args", "imagePullPolicy"}


class _Unfit(Exception):
    """An entry of which no job can be made."""

    def __init__(self, part: Part, why: str, hint: str) -> None:
        super().__init__(why)
        self.line, self.why, self.hint = part.line, why, hint


def read_kubernetes(text: str, gathering: Gathering, *, zone: str | None) -> None:
    """All CronJobs of a file. ``zone``: of those without timeZone; None: taken as UTC, and said."""
    found = [resource for document in read_parts(text) for resource in _resources(document)]
    if not found:
        raise RequestError("The file holds no document", hint="Give the YAML of a CronJob")
    for kind, part in found:
        if kind == "CronJob":
            _CronJob(part, gathering, zone).read()
        else:
            gathering.note(part.line, f"kind {kind or '?'}", "it is no CronJob, and was passed over", "Nothing to do")
    _about_the_file(gathering)


def _resources(document: Part) -> Iterator[tuple[str, Part]]:
    """Kind and part: the document itself, or the items of a List (as ``kubectl get -o yaml`` prints).

    Those of a CronJobList, as the API server answers it, name no kind.
    """
    kind = document.text("kind")
    if kind.endswith("List") and document.get("items") is not None:
        yield from ((item.text("kind") or kind.removesuffix("List"), item) for item in document.items("items"))
    elif not document.is_empty:
        yield kind, document


class _CronJob:
    def __init__(self, part: Part, gathering: Gathering, zone: str | None) -> None:
        self._part = part
        self._to = gathering
        self._zone = zone
        namespace = part.text("metadata", "namespace")
        name = part.text("metadata", "name") or "?"
        self._name = name if namespace in {"", "default"} else f"{namespace}.{name}"

    def read(self) -> None:
        try:
            document = self._document()
        except _Unfit as unfit:
            self._to.left_out(unfit.line, self._name, unfit.why, unfit.hint)
            return
        except RequestError as error:
            self._to.left_out(self._part.line, self._name, error.message, error.hint)
            return
        if self._to.job(self._part.line, self._name, name_of(self._name), document):
            self._tell_all(document)

    def _document(self) -> dict[str, Any]:
        """Raises _Unfit, RequestError."""
        spec, job = self._part.at("spec"), self._part.at("spec", "jobTemplate", "spec")
        self._check_keys(spec, job)
        if self._part.text("metadata", "name") == "":
            raise _Unfit(self._part, "it has no name", "A generateName makes another job at every import: name it")
        if spec.text("suspend").lower() not in _ACTIVE:
            raise _Unfit(spec.at("suspend"), "it is suspended, and a job is born active",
                         "Import it without suspend and `waterclock job pause` it, or when it is wanted")  # fmt: skip
        container = self._container(job)
        document = {**self._schedule(spec), **self._overlap(spec), **self._catch_up(spec), **self._retry(job)}
        deadline = job.number("activeDeadlineSeconds")
        argv = [*container.texts("command"), *container.texts("args")]
        document["shell"] = {"argv": argv, "timeout": TIMEOUT}
        if deadline:
            document["timeouts"] = {"run": format_duration(deadline * US_PER_S)}
        return document

    def _check_keys(self, spec: Part, job: Part) -> None:
        """Raises _Unfit where a part may say something else than is read here."""
        pod = job.at("template", "spec")
        between = (spec.at("jobTemplate"), job, job.at("template"), pod)
        for part in (self._part, self._part.at("metadata"), spec, *between, *pod.items("containers")):
            keys = part.keys()
            if "<<" in keys:
                raise _Unfit(part, "it takes keys from elsewhere by <<, which are not followed",
                             "Write them out, or import what `kubectl get cronjob -o yaml` prints")  # fmt: skip
            if twice := [key for key, count in Counter(keys).items() if count > 1]:
                raise _Unfit(
                    part.at(twice[0]), f"{twice[0]} is given twice", "Readers disagree on which counts: leave one"
                )

    def _container(self, job: Part) -> Part:
        pod = job.at("template", "spec")
        containers = pod.items("containers")
        if len(containers) != 1 or pod.items("initContainers"):
            raise _Unfit(pod, f"its pod has {len(containers)} containers, with {len(pod.items('initContainers'))} to "
                         "begin with", "Waterclock runs one program: write a script, or a handler")  # fmt: skip
        for key in ("parallelism", "completions"):
            if job.number(key, 1) != 1:
                raise _Unfit(job.at(key), f"{key} is {job.number(key)}", "A run is one program: make several jobs")
        if not containers[0].texts("command"):
            raise _Unfit(containers[0], "it names no command, and what its image starts is not in the file",
                         "Write the command out")  # fmt: skip
        return containers[0]

    def _schedule(self, spec: Part) -> dict[str, Any]:
        text, zone = spec.text("schedule"), spec.text("timeZone")
        if (inner := _ZONE.match(text)) is not None:
            zone, text = zone or inner[1], inner[2]
        if (every := _EVERY.match(text)) is not None:
            seconds = sum(int(count) * _UNITS_S[unit] for count, unit in _PARTS.findall(every[1]))
            return {"every": format_duration(seconds * US_PER_S)}
        if (differs := kubernetes_days_differ(text)) is not None:
            raise _Unfit(spec.at("schedule"), *differs)
        return {"cron": text, "zone": zone or self._zone or "UTC"}

    def _overlap(self, spec: Part) -> dict[str, Any]:
        """Kubernetes' own words of it; one that it does not have is told."""
        overlap = _OVERLAP.get(spec.text("concurrencyPolicy"))
        return {"overlap": overlap} if overlap else {}

    def _catch_up(self, spec: Part) -> dict[str, Any]:
        """The deadline means the same: of the missed fires that are not later than that, the newest runs."""
        if not _has_like_deadline(spec):
            return {}
        return {"catch_up": {"window": format_duration(spec.number("startingDeadlineSeconds") * US_PER_S)}}

    def _retry(self, job: Part) -> dict[str, Any]:
        limit = job.number("backoffLimit", _BACKOFF_LIMIT)
        if limit == 0:
            return {"retry": False}
        return {"retry": {"max_attempts": min(limit + 1, _ATTEMPTS_MAX), **_BACKOFF}}

    def _tell_all(self, document: dict[str, Any]) -> None:
        """What the job does not carry; of what is left out nothing else needs saying."""
        spec, job = self._part.at("spec"), self._part.at("spec", "jobTemplate", "spec")
        named_zone = spec.get("timeZone") is not None or _ZONE.match(spec.text("schedule")) is not None
        if "cron" in document and not named_zone and self._zone is None:
            self._to.note(spec.at("schedule").line, f"{self._name}: timeZone", "without one its times are taken as UTC",
                          "Give --tz if the controller manager has another zone")  # fmt: skip
        self._tell_policies(spec)
        self._tell_time(job)
        self._tell_rest(spec, job, self._container(job))

    def _tell_policies(self, spec: Part) -> None:
        policy = spec.text("concurrencyPolicy") or "Allow"
        if policy != "Allow" and policy not in _OVERLAP:
            self._to.lost(spec.at("concurrencyPolicy").line, f"{self._name}: concurrencyPolicy {policy}",
                          "it is none of Kubernetes' own", "Give the job an overlap: docs/overlap.md")  # fmt: skip
        part = spec.get("startingDeadlineSeconds")
        if part is not None and not _has_like_deadline(spec):
            self._to.lost(part.line, f"{self._name}: startingDeadlineSeconds {part.text()}",
                          "a fire that is late by up to 60 s runs always, and catch_up.window is from 60s to 365d here",
                          "Give timeouts.queue, which ends a run that waits too long for a worker")  # fmt: skip

    def _tell_time(self, job: Part) -> None:
        deadline = job.number("activeDeadlineSeconds")
        if deadline > _TIMEOUT_S:
            self._to.lost(job.at("activeDeadlineSeconds").line, f"{self._name}: activeDeadlineSeconds {deadline}",
                          "an attempt of a program ends after a day at the latest, whatever the run may take",
                          "Have it go on where it was, or let a handler do it")  # fmt: skip

    def _tell_rest(self, spec: Part, job: Part, container: Part) -> None:
        pod = job.at("template", "spec")
        self._to.lost(container.line, f"{self._name}: image {container.text('image') or '?'}",
                      "no image is pulled: the program runs on its worker's host",
                      "Have it there, or run workers of a pool of their own (--pool) in that image")  # fmt: skip
        self._tell(self._part.at("metadata").others(_METADATA), "a job has no labels")
        self._tell(spec.others(_SPEC | _HISTORY), "it has no counterpart")
        self._tell(job.others(_JOB_SPEC | {"ttlSecondsAfterFinished"}), "it has no counterpart")
        self._tell(pod.others(_POD), "it speaks of pods: programs run on a worker's host")
        self._tell(container.others(_CONTAINER), "a program has the environment, folder and bounds of its worker")
        keys = [*spec.named(_HISTORY), *job.named({"ttlSecondsAfterFinished"})]
        self._tell(keys, "history is kept for 30 days, of every job")
        if any("$(" in word for word in (*container.texts("command"), *container.texts("args"))):
            self._to.lost(container.line, f"{self._name}: $(NAME)", "nothing is put in its place",
                          "Let a script read the value")  # fmt: skip

    def _tell(self, parts: list[tuple[str, Part]], why: str) -> None:
        for key, part in parts:
            self._to.lost(part.line, f"{self._name}: {key}", why, "See docs/importing.md")


def _has_like_deadline(spec: Part) -> bool:
    return _DEADLINE_S_MIN <= spec.number("startingDeadlineSeconds") <= _DEADLINE_S_MAX


def _about_the_file(gathering: Gathering) -> None:
    drafts = gathering.found().drafts
    programs = sorted({draft.document["shell"]["argv"][0] for draft in drafts})
    if programs:
        listed = ", ".join(f'"{program}"' for program in programs)
        gathering.note(0, "programs", "the jobs run programs by the shell executor, which is off by default",
                       f"Where their workers run: shell.enabled = true and shell.allow = [{listed}], by their whole "
                       "paths")  # fmt: skip
