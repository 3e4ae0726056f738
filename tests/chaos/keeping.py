"""Keeps what stood in topics and tables in the play's folder: the broker's own disk is gone with this process.

One line a record or row. What cannot be read (an open transaction, a server that is gone) is told, and does not keep
the rest from being kept. ``load`` reads it back for the judges: ``python -m tests.chaos.judge_again FOLDER``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.acceptance import dumps
from tests.acceptance.scene import OUTPUTS, Scene
from tests.acceptance.taken import JUDGED, Taken, take_work, topics_of, whole_run
from tests.chaos.stage import Stage
from waterclock.wire.names import RUNGS, Names

_WITHIN_S = 30.0
"""For a topic that is hidden behind an open transaction: what stands before it is kept."""

_TABLES = (*JUDGED, "job_versions", "due", "letters", "audit")


def keep(stage: Stage, scene: Scene) -> None:
    """Everything that a judge looks at, and what else may say why: rungs of the ladder, whole tables."""
    folder = stage.folder / "dumps"
    folder.mkdir(exist_ok=True)
    names, bootstrap = stage.names, stage.bootstrap
    kept: dict[str, Callable[[], Iterable[Mapping[str, Any]]]] = {"events": lambda: _all_events(scene)}
    topics = topics_of(names) | {f"delay-{rung}": names.delay(rung) for rung in RUNGS} | {"outputs": OUTPUTS}
    for field, topic in topics.items():
        kept[field] = lambda topic=topic: _records(bootstrap, topic)
    for table in _TABLES:
        kept[f"table-{table}"] = lambda table=table: _rows(stage, table)
    for name, read in kept.items():
        _anyway(name, lambda name=name, read=read: write(folder / f"{name}.jsonl", read()))
    _anyway("work", lambda: _keep_work(stage, folder))
    _anyway("told", lambda: _keep_told(stage, folder))


def load(folder: Path, ledger: Path) -> Taken:
    """What ``keep`` wrote, and the sink's ledger beside it. Raises OSError where something was not kept."""
    read = {path.stem: _read(path) for path in folder.glob("*.jsonl")}
    plain = {name: read[name] for name in (*topics_of(Names()), "events", "work", "outputs")}
    behind = {(each["topic"], each["partition"]): each["offset"] for each in read["behind"]}
    told = {each["partition"]: (each["offset"], each["text"]) for each in read["told"]}
    return Taken(
        **plain,
        ledger=[json.loads(line) for line in ledger.read_text().splitlines()],
        behind=behind,
        told=told,
        rows={table: read[f"table-{table}"] for table in JUDGED},
    )


def _all_events(scene: Scene) -> list[dict[str, Any]]:
    """Also of a play that broke off: as far as they can be read."""
    _anyway("the rest of run-events", scene.following.read_on)
    return scene.following.events


def _records(bootstrap: str, topic: str) -> Iterable[dict[str, Any]]:
    for message in dumps.messages(bootstrap, topic, committed=True, within_s=_WITHIN_S):
        yield {**dumps.plain(message), "headers": message.headers() or []}


def _rows(stage: Stage, table: str) -> list[dict[str, Any]]:
    query = f"SELECT * FROM {'runs_by_drawer' if table == 'runs' else table}"  # noqa: S608 - a name of ours
    found = [row._asdict() for row in dumps.rows(stage.cassandra.port, query)]
    return [whole_run(row) for row in found] if table == "runs" else found


def _keep_work(stage: Stage, folder: Path) -> None:
    work, behind = take_work(stage.bootstrap, stage.names)
    write(folder / "work.jsonl", work)
    places = ({"topic": topic, "partition": at, "offset": offset} for (topic, at), offset in behind.items())
    write(folder / "behind.jsonl", places)


def _keep_told(stage: Stage, folder: Path) -> None:
    names = stage.names
    texts = dumps.committed_texts(stage.bootstrap, names.group("retry-router"), names.run_events)
    write(folder / "told.jsonl", ({"partition": at, "offset": o, "text": text} for at, (o, text) in texts.items()))


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Record by record: what came before a trouble stays."""
    with path.open("w") as file:
        for record in records:
            file.write(json.dumps(record, default=_text) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    return [_back(json.loads(line)) for line in path.read_text().splitlines()]


_BYTES = "hex:"


def _text(value: object) -> str:
    return f"{_BYTES}{value.hex()}" if isinstance(value, bytes) else str(value)


def _back(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_BYTES):
        return bytes.fromhex(value.removeprefix(_BYTES))
    if isinstance(value, list):
        return [_back(each) for each in value]
    if isinstance(value, dict):
        return {name: _back(each) for name, each in value.items()}
    return value


def _anyway(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - told, and the rest is kept all the same
        print(f"not kept: {what}: {error!r}", flush=True)
