"""One play of real fire: seed -> schedule -> real servers and all roles under it -> rest -> judges.

The harness is the supervisor, as systemd would be: it starts again what has ended, all along, and lends no other hand.
A play that falls short keeps seed, schedule, deeds, histories, dumps and logs in its folder and names the line that
plays it again: the same schedule, not the same interleaving, for the servers are real.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.scene import Scene
from tests.chaos import cast, judging, recovery, schedule
from tests.chaos.coming_to_rest import come_to_rest
from tests.chaos.deeds import Deeds
from tests.chaos.director import Director
from tests.chaos.rights import Rights, probe
from tests.chaos.stage import Stage

SUPERVISED = "The harness supervises: whatever ends is started again, as systemd would; nothing else is done by hand."


_READY_S = 240.0
"""A dozen processes start at once, perhaps on two busy cores."""


class Size(NamedTuple):
    """How much of it. ``at_least``: what must really have happened, by kind, else nothing was shown; ``runs``."""

    minutes: float
    runs_per_s: float
    runs: int
    at_least: Mapping[str, int]


def size_of(minutes: float, runs_per_s: float = 60.0) -> Size:
    """Of a play of so many minutes: every kind at least once, half of the runs that are due."""
    return Size(minutes, runs_per_s, round(minutes * 30 * runs_per_s), dict.fromkeys(schedule.PER_MINUTE, 1))


def play(seed: int | None, size: Size) -> None:
    """Raises FallsShort, and whatever came in between."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    with tempfile.TemporaryDirectory() as place:
        rights = probe(Path(place))
    with on_stage("chaos", build=partial(Stage, rights=rights)) as (stage, evidence):
        assert isinstance(stage, Stage)
        try:
            _play(stage, evidence, seed, size, rights)
        except BaseException:
            _tell_how_again(stage, seed, size)
            raise
        if evidence.falls_short:
            _tell_how_again(stage, seed, size)


def _tell_how_again(stage: Stage, seed: int, size: Size) -> None:
    print(f"KEPT: seed, schedule, deeds, histories, dumps and logs in {stage.folder}", flush=True)
    print(f"AGAIN: make chaos SEED={seed} MINUTES={size.minutes:g} RUNS_PER_S={size.runs_per_s:g}", flush=True)


def _play(stage: Stage, evidence: Evidence, seed: int, size: Size, rights: Rights) -> None:
    faults = schedule.draw(seed, size.minutes, rights.left_out)
    schedule.write(stage.folder / "schedule.jsonl", faults)
    evidence.figure("seed", seed, minutes=size.minutes, faults=len(faults))
    evidence.figure("left out, because it is not allowed here", len(rights.left_out), **rights.left_out)
    evidence.figure("supervision", SUPERVISED)
    scene = Scene(stage, evidence, seed)
    port = cast.enter(scene, stage)
    deeds = Deeds(stage.folder / "deeds.jsonl")
    director = Director(stage, deeds)
    director.wait_for(lambda: director.supervisor.is_whole, "the whole cast ready", _READY_S)
    scene.define(cast.jobs(size.runs_per_s, scene.dice))
    client = cast.Client(stage, port, seed)
    try:
        director.play(faults, size.minutes * 60.0)
        chronicle = come_to_rest(scene, stage, director, client)
        judging.judge(scene, stage, chronicle, client.history, time.time_ns() // 1_000)
        recovery.tell(evidence, deeds, chronicle)
        inside = recovery.tell_hits(scene, stage, deeds)
        evidence.demand(inside > 0, "no kill fell inside an open transaction")
        _judge_it_happened(stage, evidence, deeds, size, rights, len(chronicle.made))
        if evidence.falls_short:
            judging.keep(stage, scene)
    except BaseException:
        _anyway(lambda: judging.keep(stage, scene))
        raise
    finally:
        client.close()
        scene.close()


def _anyway(act: Callable[[], object]) -> None:
    """What must not hide the reason for which it is done."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - told, and the first trouble goes on
        print(f"dumps not kept: {error!r}", flush=True)


def _judge_it_happened(stage: Stage, evidence: Evidence, deeds: Deeds, size: Size, rights: Rights, runs: int) -> None:
    """Else nothing was shown. Ends that nobody ordered are told: a role may end itself, and comes back."""
    counts = deeds.counts()
    ended: dict[str, int] = {}
    for deed in deeds.of("ended"):
        what = f"{deed.target} with {deed.how}"
        ended[what] = ended.get(what, 0) + 1
    killed = Counter(deed.target for deed in deeds.of("kill"))
    evidence.figure("kills of roles", killed.total(), **killed)
    kinds = {stage.role_of(name) for name in schedule.CAST} - {stage.role_of(name) for name in killed}
    evidence.none_of(sorted(kinds), "roles that were never killed")
    evidence.figure("faults that happened", sum(counts[kind] for kind in schedule.PER_MINUTE), **counts)
    evidence.figure("ends that no fault ordered, and leaves", sum(ended.values()), **ended)
    for kind, wanted in size.at_least.items():
        if kind not in rights.left_out:
            evidence.demand(counts[kind] >= wanted, f"{counts[kind]} times {kind}, wanted {wanted}")
    notes = stage.proxies[schedule.KAFKA].notes()
    late = [note for note in notes if "kept" in note]
    evidence.figure("EndTxn that came late", len(late), commits=sum(note["commit"] for note in late))
    evidence.demand(len(late) > 0, "no EndTxn came late")
    evidence.demand(runs >= size.runs, f"{runs} runs, wanted {size.runs}")
