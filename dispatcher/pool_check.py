"""Whether a job's pool can take its runs."""

from __future__ import annotations

from waterclock.model.dag_work import topics_of
from waterclock.model.document import is_pool_name
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.job import JobSpec
from waterclock.wire.pools import Pools


def check_pool(pools: Pools, spec: JobSpec) -> None:
    """Refuse a pool without topics: an unknown topic would block every round of the shard (kafka.md 3.3)."""
    try:
        for tier, pool in topics_of(spec):
            if pool != "default" and is_pool_name(pool):  # what is no name at all is refused with the rest of the spec
                pools.check(tier, pool)
    except NotFound as error:  # it is the request that is wrong: the job itself may well exist
        raise RequestError(error.message, pointer=error.pointer, hint=error.hint) from error
