"""After the last fault: nothing but waiting, until everything stands still. No hand is lent, nothing restarted by us.

What must come by itself, each within a bound: every process ready, every order answered, every run ended, lag 0 by
Kafka's own tool, no open transaction anywhere, no hanging one by Kafka's own tool, and nothing new a minute later.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from tests.acceptance import dumps, lag_zero
from tests.acceptance.evidence import Evidence
from tests.acceptance.scene import Scene
from tests.acceptance.taken import take_rows
from tests.acceptance.transactions import judge_transactions
from tests.chaos.cast import Client
from tests.chaos.director import Director
from tests.chaos.stage import Stage
from tests.oracle.chronicle import Chronicle
from waterclock.model.job import CommandKind

_READY_S = 120.0
_ANSWERED_S = 150.0
_APPLIED_S = 120.0
_ENDED_S = 300.0
_LAG_S = 120.0
_READ_S = 5.0
_SECOND_LOOK_S = 60.0

Look: TypeAlias = dict[str, object]
"""What stands at each place."""


def come_to_rest(scene: Scene, stage: Stage, director: Director, client: Client) -> Chronicle:
    """Wait for all of it, then stop the roles; what takes how long is told. Raises TimeoutError at a bound."""
    evidence = scene.evidence
    healed_s = time.monotonic()
    director.wait_for(lambda: director.supervisor.is_whole, "everything ready after the last fault", _READY_S)
    evidence.figure("seconds from the last heal until all are ready", _since(healed_s))
    client.ask_to_end()
    director.wait_for(lambda: client.has_ended, "the client's orders answered", _ANSWERED_S)
    _end_the_load(scene, stage, director)
    began_s = time.monotonic()
    director.wait_for(lambda: _all_ended(scene), "every run ended", _ENDED_S, every_s=1.0)
    evidence.figure("seconds from the end of the load to the last end", _since(began_s))
    director.wait_for(lambda: not _lagging(stage), "lag 0 by Kafka's own tool", _LAG_S, every_s=1.0)
    lags = lag_zero.lags_of_the_resting(stage)
    evidence.figure(
        "partitions with lag 0", sum(lag.lag == "0" for lag in lags), of=len(lag_zero.all_that_is_read(stage))
    )
    evidence.none_of(lag_zero.what_lags(stage, lags), "partitions whose lag is not 0")
    evidence.figure("seconds from the last heal to rest", _since(healed_s))
    looked_s, first = time.monotonic(), director.wait_for(lambda: _look(stage), "the first look", _READY_S)
    judge_transactions(stage, evidence)
    _look_again(stage, director, evidence, first, looked_s)
    for role in stage.roles.values():
        role.stop()
    return scene.following.read_on()


def _since(began_s: float) -> float:
    return round(time.monotonic() - began_s, 1)


def _all_ended(scene: Scene) -> bool:
    """Read on for a while, and no longer: the supervisor has to look around meanwhile."""
    try:
        return not scene.following.read_on(_READ_S).open
    except TimeoutError:
        return False


def _end_the_load(scene: Scene, stage: Stage, director: Director) -> None:
    """Delete every job; from then on nothing is due."""
    for job_id in list(scene.specs):
        scene.orders.send(CommandKind.DELETE, job_id)
    scene.orders.flush()
    group, topic = stage.names.group("dispatcher"), stage.names.commands
    director.wait_for(lambda: dumps.unread(stage.bootstrap, group, [topic]) == 0, "the deletes applied", _APPLIED_S)


def _lagging(stage: Stage) -> list[str]:
    """What lags but ``heartbeats``: workers beat for ever, so that is looked at by itself, and several times."""
    beats = f"'{stage.names.heartbeats}'"
    return [each for each in lag_zero.what_lags(stage, lag_zero.lags_by_tool(stage)) if beats not in each]


def _look_again(stage: Stage, director: Director, evidence: Evidence, first: Look, looked_s: float) -> None:
    """I3: what was ordered, and what became of it, is the same a minute later, with all roles up and nobody's hand."""
    due_s = looked_s + _SECOND_LOOK_S
    director.wait_for(lambda: time.monotonic() >= due_s, "the time of the second look", _SECOND_LOOK_S + 1.0)
    second = director.wait_for(lambda: _look(stage), "the second look", _READY_S)
    evidence.figure("seconds between two looks at what was ordered", _since(looked_s), records=len(first))
    evidence.none_of(differ(first, second), "orders that were not the same a minute later")


def differ(first: Look, second: Look) -> list[str]:
    """Complaints: what came, went or changed between two looks."""
    other = (place for place in sorted(first.keys() | second.keys()) if first.get(place) != second.get(place))
    return [f"{place}: it came, went or changed" for place in other]


def _look(stage: Stage) -> Look:
    """The orders, what was refused, and the row of each job."""
    names = stage.names
    found: Look = {}
    for topic in (names.commands, names.job_events, names.rejects, names.control):
        for record in dumps.dump(stage.bootstrap, topic):
            found[f"{topic}[{record['partition']}]@{record['offset']}"] = record["value"]
    for row in take_rows(stage.cassandra.port, ["jobs"])["jobs"]:
        found[f"job {row['job_id']}"] = (row["revision"], row["status"])
    return found
