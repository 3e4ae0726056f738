"""Who is measured, and with which commands. Why each configuration is as it is: README.md in each folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Peer(NamedTuple):
    """One system in one configuration.

    Commands name `{py}` (its venv's Python), `{bin}` (the folder of that) and `{target}` (where it was built).
    """

    name: str
    folder: str
    server: str
    producer: tuple[str, ...]
    """Takes orders on its input: bench/peers/handler.py."""
    workers: tuple[tuple[str, ...], ...] = ()
    ticker: tuple[str, ...] = ()
    """A scheduler process that only the herd needs."""
    tasks: int = 20_000
    """Of a burst and of a drain; 0: the peer is a scheduler only."""
    herd: str = "producer"
    """How 5,000 become due: by orders to the "producer", by the "ticker" alone (PEER_HERD), or "none"."""
    lead_s: float = 15.0
    """From the order of a herd to its instant."""
    env: Mapping[str, str] = {}


def _module(name: str) -> tuple[str, ...]:
    return ("{py}", "-m", f"bench.peers.{name}")


_CELERY = ("-A", "bench.peers.with_celery.tasks", "-q")
_CELERY_WORKER = ("{py}", "-m", "celery", *_CELERY, "worker", "-P", "prefork", "-c", "2", "-l", "ERROR")
_CELERY_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_CELERY_PEER = Peer(
    "celery-redis",
    "with_celery",
    "redis",
    producer=_module("with_celery.producer"),
    workers=((*_CELERY_WORKER, *_CELERY_QUIET),),
)
_DRAMATIQ = ("{py}", "-m", "dramatiq", "bench.peers.with_dramatiq.tasks", "--processes", "2", "--threads", "4")
_DRAMATIQ_PEER = Peer(
    "dramatiq-redis",
    "with_dramatiq",
    "redis",
    producer=_module("with_dramatiq.producer"),
    workers=(_DRAMATIQ,),
    env={"dramatiq_queue_prefetch": "200", "dramatiq_delay_queue_prefetch": "5000"},
)
_TASKIQ = ("{py}", "-W", "ignore", "-m", "taskiq")
_TASKIQ_SIZES = ("--workers", "2", "--max-async-tasks", "200", "--max-prefetch", "200", "--log-level", "ERROR")
_TASKIQ_TASKS = "bench.peers.with_taskiq.tasks"
_ARQ_WORKER = ("{bin}/arq", "bench.peers.with_arq.tasks.Worker")
_RIVER = Peer(
    "river-default",
    "with_river",
    "postgres",
    producer=("{target}/bin/river", "producer"),
    workers=(("{target}/bin/river", "worker"),),
    tasks=50_000,
)
_DB_SCHEDULER = ("java", "-Xmx512m", "-cp", "{target}/db_scheduler:{target}/db_scheduler/lib/*", "Peer")

PEERS = (
    _CELERY_PEER,
    _DRAMATIQ_PEER,
    _DRAMATIQ_PEER._replace(name="dramatiq-rabbitmq", server="rabbitmq"),
    Peer(
        "taskiq-redis",
        "with_taskiq",
        "redis",
        producer=_module("with_taskiq.producer"),
        workers=((*_TASKIQ, "worker", f"{_TASKIQ_TASKS}:broker", *_TASKIQ_SIZES),),
        ticker=(*_TASKIQ, "scheduler", f"{_TASKIQ_TASKS}:scheduler", "--update-interval", "1", "--loop-interval", "1"),
    ),
    Peer("arq", "with_arq", "redis", producer=_module("with_arq.producer"), workers=(_ARQ_WORKER, _ARQ_WORKER)),
    Peer(
        "procrastinate",
        "with_procrastinate",
        "postgres",
        producer=_module("with_procrastinate.producer"),
        workers=(_module("with_procrastinate.worker"),) * 2,
    ),
    _CELERY_PEER._replace(
        name="celery-beat",
        ticker=("{py}", "-m", "celery", *_CELERY, "beat", "-l", "ERROR", "-S", "celery.beat:Scheduler"),
        tasks=0,
        herd="ticker",
    ),
    Peer(
        "apscheduler",
        "with_apscheduler",
        "postgres+sqlalchemy",
        producer=_module("with_apscheduler.scheduler"),
        tasks=0,
        lead_s=40.0,
    ),
    Peer("apscheduler-memory", "with_apscheduler", "memory", _module("with_apscheduler.scheduler"), tasks=0),
    _RIVER,
    _RIVER._replace(
        name="river-tuned",
        env={"PEER_MAX_WORKERS": "500", "PEER_FETCH_COOLDOWN_MS": "10", "PEER_FETCH_POLL_MS": "10"},
    ),
    Peer(
        "db-scheduler",
        "with_db_scheduler",
        "postgres+jdbc",
        producer=(*_DB_SCHEDULER, "producer"),
        workers=((*_DB_SCHEDULER, "worker"),),
    ),
    Peer(
        "temporal",
        "with_temporal",
        "temporal",
        producer=_module("with_temporal.producer"),
        workers=(_module("with_temporal.worker"),) * 2,
        tasks=1_000,
        lead_s=150.0,
    ),
)


def chosen(names: str) -> list[Peer]:
    """The peers of those names, separated by blanks or commas; all when there are none.

    Raises:
        ValueError: there is none of that name.
    """
    wanted = names.replace(",", " ").split()
    known = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no peer is called {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in wanted] if wanted else list(PEERS)
