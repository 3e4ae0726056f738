"""One play of real fire: seed -> schedule -> real servers and all roles under it -> rest -> judges.

The harness is the supervisor, as systemd would be: it starts again what has ended, all along, and lends no other hand.
A play that falls short keeps seed, schedule, deeds, histories, dumps and logs in its folder and names the line that
plays it again: the same schedule, not the same interleaving, for the servers are real.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.scene import Scene
from tests.chaos import cast, happened, judging, keeping, recovery, schedule
from tests.chaos.cancels import Cancels
from tests.chaos.coming_to_rest import come_to_rest
from tests.chaos.deeds import Deeds
from tests.chaos.director import Director
from tests.chaos.rights import Rights, probe
from tests.chaos.stage import Stage

SUPERVISED = "The harness supervises: whatever ends is started again, as systemd would; nothing else is done by hand."


_READY_S = 240.0
"""A dozen processes start at once, perhaps on two busy cores."""


_MINUTES_FOR_ALL = 15.0
"""From so many on every kind is demanded; before, ``_OFTEN`` alone."""

_OFTEN = ("kill", "kill-kafka", "kill-cassandra", "stop", happened.LOST)


class Size(NamedTuple):
    """How much of it. ``at_least``: what must really have happened, by kind, else nothing was shown; ``runs``."""

    minutes: float
    runs_per_s: float
    runs: int
    at_least: Mapping[str, int]


def size_of(minutes: float, runs_per_s: float = 60.0) -> Size:
    """Of a play of so many minutes: every kind at least once, lost attempts, and a tenth of the runs that are due.

    In a few minutes one of the two servers may be away for most of the time, and what is drawn once need not happen: it
    may find its target down, or nobody who feels it. There the crashes and pauses of roles and servers are demanded.
    """
    kinds = _OFTEN if minutes < _MINUTES_FOR_ALL else (*schedule.PER_MINUTE, happened.LOST, happened.INSIDE)
    return Size(minutes, runs_per_s, round(minutes * 6 * runs_per_s), dict.fromkeys(kinds, 1))


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
        director.play(faults, size.minutes * 60.0, Cancels(scene, scene.dice).go_on)
        chronicle = come_to_rest(scene, stage, director, client)
        forgotten = stage.forgotten_positions()
        evidence.figure("times that the broker forgot committed positions", len(forgotten))
        evidence.none_of(forgotten, "times that the broker forgot positions: what follows speaks of it, not of us")
        told = happened.Told(deeds.all, {name: proxy.notes() for name, proxy in stage.proxies.items()})
        until = time.time_ns() // 1_000
        found = judging.judge(scene, chronicle, client.history, until, told.deeds, told.notes[schedule.KAFKA])
        recovery.tell(evidence, deeds, chronicle)
        told = told._replace(kills_inside=recovery.tell_hits(scene, stage, deeds))
        roles = {name: stage.role_of(name) for name in schedule.CAST}
        happened.judge_happened(found, told, size.at_least, rights.left_out, roles)
        runs = len(chronicle.made)
        evidence.demand(runs >= size.runs, f"{runs} runs, wanted {size.runs}")
        if evidence.falls_short:
            keeping.keep(stage, scene)
    except BaseException:
        # Told at once: what is kept takes minutes, and a client that is closed then may take the process along.
        traceback.print_exc()
        keeping.keep(stage, scene)
        raise
    finally:
        client.close()
        scene.close()
