"""The critical path of any Dag is a way through it in time."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_dags import random_dag
from waterclock.model.critical_path import Span, critical_path


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_it_is_a_way_through_the_dag_that_ends_with_the_last_end(seed: int) -> None:
    rng = Random(seed)
    nodes = random_dag(rng, 8).nodes
    by_name = {each.name: each for each in nodes}
    times: dict[str, Span] = {}
    for each in nodes:
        if rng.random() < 0.7:
            began = rng.randint(1, 100)
            times[each.name] = Span(began, rng.choice([0, rng.randint(began, 200)]))
    path = critical_path(nodes, times)
    assert bool(path) == bool(times)
    for before, after in itertools.pairwise(path):
        own = by_name[after]
        over = own.map_over.of if own.map_over else ""
        assert before in (*own.after, *own.inputs, over)
        assert times[before].ended_at
    if path:
        assert (times[path[-1]].ended_at or 1 << 60) == max(each.ended_at or 1 << 60 for each in times.values())
