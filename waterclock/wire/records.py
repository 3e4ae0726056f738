"""Our values as the dicts that fastavro writes and reads, and back: a shape for each record kind, at the end.

No bytes here, and no rule: only which part of a value is which field of a record. ``from_record`` raises KeyError,
TypeError or ValueError where a record of a released schema holds what no value of ours can hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import orjson

from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.concurrency import concurrency_from_json, concurrency_to_json
from waterclock.model.dag import dag_from_json, dag_to_json
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.dag_state import KeptDagRun, KeptNode
from waterclock.model.events import (
    Answered,
    Control,
    ControlKind,
    DeadLetter,
    Detail,
    Ended,
    EventKind,
    Heartbeat,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    Reject,
    Retrying,
    Revised,
    RunEvent,
    Skipped,
    SourceRecord,
    Started,
    WorkRecord,
)
from waterclock.model.executor import executor_from_json, executor_to_json
from waterclock.model.failure_policy import policy_from_json, policy_to_json
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.job import (
    Command,
    CommandKind,
    Cron,
    Dates,
    Delay,
    Every,
    Fold,
    Gap,
    JobSpec,
    Once,
    Schedule,
    Tier,
)
from waterclock.model.job_event import JobEvent
from waterclock.model.job_state import Edge, JobState
from waterclock.model.role_state import KeyState, OpenRunState, RecordedRunState, ShardState
from waterclock.model.run_log import LogLine, LogStream, RunLog
from waterclock.model.timing import timing_from_json, timing_to_json, uses_from_stored, uses_to_stored
from waterclock.model.triggers import JobTriggers, triggers_from_json, triggers_to_json

Dict: TypeAlias = dict[str, Any]
_Value = TypeVar("_Value")


class Shape(NamedTuple, Generic[_Value]):
    """How values of one kind become records, and records values."""

    to_record: Callable[[_Value], Dict]
    from_record: Callable[[Dict], _Value]


_DETAILS = {
    "pending": Pending,
    "skipped": Skipped,
    "started": Started,
    "ended": Ended,
    "revised": Revised,
    "answered": Answered,
    "retrying": Retrying,
    "node_skipped": NodeSkipped,
    "backfilled": Backfilled,
}
_FIELDS = {made: name for name, made in _DETAILS.items()}


def _event_to_record(event: RunEvent) -> Dict:
    record = event._asdict() | dict.fromkeys(_DETAILS)
    detail: Detail | None = record.pop("detail")
    if detail is not None:
        record[_FIELDS[type(detail)]] = _detail_to_record(detail)
    return record


def _event_from_record(record: Dict) -> RunEvent:
    details = {name: record.pop(name) for name in _DETAILS}
    found = [_detail_from_record(name, detail) for name, detail in details.items() if detail is not None]
    if len(found) > 1:
        raise ValueError("an event with two details")
    return RunEvent(**record | {"kind": EventKind(record["kind"])}, detail=found[0] if found else None)


def _detail_to_record(detail: Detail) -> Dict:
    record = detail._asdict()
    if "tier" in record:
        record["tier"] = record["tier"].name
    if "gaps" in record:
        record["gaps"] = [{"from_at": from_at, "to_at": to_at} for from_at, to_at in record["gaps"]]
    if isinstance(detail, Pending) and detail.dag is not None:
        record["dag"] = {"payload": detail.dag.payload, "rerun_from": list(detail.dag.rerun_from)}
    if isinstance(detail, NodeSkipped):
        record["counts_as"] = detail.counts_as.name
    return record


def _detail_from_record(name: str, record: Dict) -> Detail:
    if "tier" in record:
        record["tier"] = Tier[record["tier"]]
    if "origin" in record:
        record["origin"] = Origin(record["origin"])
    if name == "backfilled":
        record["status"] = BackfillStatus(record["status"])
    if "gaps" in record:
        record["gaps"] = tuple((gap["from_at"], gap["to_at"]) for gap in record["gaps"])
    if record.get("dag") is not None:
        record["dag"] = DagStart(record["dag"]["payload"], tuple(record["dag"]["rerun_from"]))
    if "counts_as" in record:
        record["counts_as"] = NodeEnd[record["counts_as"]]
    detail: Detail = _DETAILS[name](**record)
    return detail


def _work_to_record(work: WorkRecord) -> Dict:
    return work._asdict() | {"tier": work.tier.name}


def _work_from_record(record: Dict) -> WorkRecord:
    return WorkRecord(**record | {"tier": Tier[record["tier"]]})


def _command_to_record(command: Command) -> Dict:
    spec = None if command.spec is None else _spec_to_record(command.spec)
    calendars = orjson.dumps(uses_to_stored(command.calendars)).decode() if command.calendars else ""
    changed = {"tier": command.tier.name if command.tier is not None else "", "rerun_from": list(command.rerun_from)}
    headers = [{"name": name, "text": text} for name, text in command.headers]
    return command._asdict() | {"spec": spec, "calendars": calendars, "headers": headers} | changed


def _command_from_record(record: Dict) -> Command:
    spec = None if record["spec"] is None else _spec_from_record(record["spec"])
    said = {
        "kind": CommandKind(record["kind"]),
        "spec": spec,
        "calendars": uses_from_stored(orjson.loads(record["calendars"])) if record["calendars"] else (),
        "rerun_from": tuple(record["rerun_from"]),
        "tier": Tier[record["tier"]] if record["tier"] else None,
        "headers": tuple((header["name"], header["text"]) for header in record["headers"]),
        "request_hash": _bytes_of(record["request_hash"]),
    }
    return Command(**record | said)


def _bytes_of(filled_in: bytes | str) -> bytes:
    """Of a field that may be missing: fastavro fills bytes in with their default as the schema spells it, as text."""
    return filled_in.encode("latin-1") if isinstance(filled_in, str) else filled_in


_KINDS = ("cron", "every", "once", "dates", "delay_us")


def _spec_to_record(spec: JobSpec) -> Dict:
    record: Dict = {"handler": spec.handler, "tier": spec.tier.name, "pool": spec.pool, "payload": spec.payload}
    executor = executor_to_json(spec.executor) if spec.executor else ""
    policy = policy_to_json(spec.policy)
    record |= {"executor": executor, "at_most_once": spec.at_most_once, "policy": policy}
    record["timing"] = timing_to_json(spec.timing)
    record |= {"concurrency": concurrency_to_json(spec.concurrency), "dag": dag_to_json(spec.dag)}
    record["on"] = triggers_to_json(spec.on)
    return record | dict.fromkeys(_KINDS) | _schedule_to_record(spec.schedule)


def _schedule_to_record(schedule: Schedule) -> Dict:
    if isinstance(schedule, Every):
        return {"every": {"every_us": schedule.every_us, "start_at": schedule.start_at}}
    if isinstance(schedule, Once):
        return {"once": {"once_at": schedule.at}}
    if isinstance(schedule, Dates):
        return {"dates": list(schedule.times)}
    if isinstance(schedule, Delay):
        return {"delay_us": schedule.delay_us}
    rules = {"gap": schedule.gap.name, "fold": schedule.fold.name}
    return {"cron": {"text": schedule.text, "zone": schedule.zone, "seconds": schedule.seconds} | rules}


def _spec_from_record(record: Dict) -> JobSpec:
    schedule = _schedule_from_record({kind: record[kind] for kind in _KINDS})
    executor = executor_from_json(record["executor"]) if record["executor"] else None
    parts = (record["handler"], schedule, Tier[record["tier"]], record["pool"], record["payload"])
    rules = policy_from_json(record["policy"]), timing_from_json(record["timing"])
    beside = concurrency_from_json(record["concurrency"])
    rest = dag_from_json(record["dag"]), triggers_from_json(record["on"])
    return JobSpec(*parts, executor, record["at_most_once"], *rules, beside, *rest)


def _schedule_from_record(given: Dict) -> Schedule:
    if sum(schedule is not None for schedule in given.values()) != 1:
        raise ValueError(f"a spec has exactly one of {', '.join(_KINDS)}")
    cron, every, once, dates, delay_us = given.values()
    if every is not None:
        return Every(every["every_us"], every["start_at"])
    if once is not None:
        return Once(once["once_at"])
    if dates is not None:
        return Dates(tuple(dates))
    if delay_us is not None:
        return Delay(delay_us)
    return Cron(cron["text"], cron["zone"], cron["seconds"], Gap[cron["gap"]], Fold[cron["fold"]])


def _lease_from_record(record: Dict) -> Lease:
    return Lease(**record | {"kind": LeaseKind(record["kind"])})


def _heartbeat_from_record(record: Dict) -> Heartbeat:
    return Heartbeat(**record | {"handlers": tuple(record["handlers"])})


def _control_from_record(record: Dict) -> Control:
    return Control(**record | {"kind": ControlKind(record["kind"])})


def _job_event_from_record(record: Dict) -> JobEvent:
    return JobEvent(**record | {"kind": CommandKind(record["kind"])})


def _dead_letter_to_record(letter: DeadLetter) -> Dict:
    return letter._asdict() | {"work": None if letter.work is None else _source_to_record(letter.work)}


def _dead_letter_from_record(record: Dict) -> DeadLetter:
    work = None if record["work"] is None else _source_from_record(record["work"])
    return DeadLetter(**record | {"work": work})


def _reject_to_record(reject: Reject) -> Dict:
    return reject._asdict() | {"source": _source_to_record(reject.source)}


def _reject_from_record(record: Dict) -> Reject:
    return Reject(**record | {"source": _source_from_record(record["source"])})


def _source_to_record(source: SourceRecord) -> Dict:
    return source._asdict() | {"headers": [{"name": name, "value": value} for name, value in source.headers]}


def _source_from_record(record: Dict) -> SourceRecord:
    headers = tuple((header["name"], header["value"]) for header in record["headers"])
    return SourceRecord(**record | {"headers": headers})


def _run_log_to_record(log: RunLog) -> Dict:
    return log._asdict() | {"lines": [line._asdict() for line in log.lines]}


def _run_log_from_record(record: Dict) -> RunLog:
    lines = tuple(LogLine(**line | {"stream": LogStream(line["stream"])}) for line in record["lines"])
    return RunLog(**record | {"lines": lines})


def _open_run_to_record(run: OpenRunState) -> Dict:
    return run._asdict() | {"work": None if run.work is None else run.work._asdict()}


def _open_run_from_record(record: Dict) -> OpenRunState:
    work = None if record["work"] is None else Started(**record["work"])
    return OpenRunState(**record | {"work": work})


def _job_triggers_to_record(standing: JobTriggers) -> Dict:
    return standing._asdict() | {"on": triggers_to_json(standing.on)}


def _job_triggers_from_record(record: Dict) -> JobTriggers:
    on = triggers_from_json(record["on"])
    if on is None:
        raise ValueError("it names no conditions")
    return JobTriggers(**record | {"on": on})


def _key_state_from_record(record: Dict) -> KeyState:
    return KeyState(**record | {"request_hash": _bytes_of(record["request_hash"])})


def _gathering_to_record(gathering: Gathering) -> Dict:
    return gathering._asdict() | {"arrivals": [each._asdict() for each in gathering.arrivals]}


def _gathering_from_record(record: Dict) -> Gathering:
    arrivals = (Arrival(**each | {"places": tuple(each["places"])}) for each in record["arrivals"])
    return Gathering(**record | {"arrivals": tuple(arrivals)})


def _flow_run_to_record(run: RunFlow) -> Dict:
    nodes = [{"run_id": run_id, "state": state} for run_id, state in run.nodes]
    return run._asdict() | {"tier": run.tier.name, "nodes": nodes, "rerun_from": list(run.rerun_from)}


def _flow_run_from_record(record: Dict) -> RunFlow:
    nodes = tuple((node["run_id"], node["state"]) for node in record["nodes"])
    said = {"tier": Tier[record["tier"]], "origin": Origin(record["origin"]), "nodes": nodes}
    return RunFlow(**record | said | {"rerun_from": tuple(record["rerun_from"])})


def _dag_run_to_record(run: KeptDagRun) -> Dict:
    return run._asdict() | {"rerun_from": list(run.rerun_from)}


def _dag_run_from_record(record: Dict) -> KeptDagRun:
    return KeptDagRun(**record | {"rerun_from": tuple(record["rerun_from"])})


EVENT = Shape(_event_to_record, _event_from_record)
WORK = Shape(_work_to_record, _work_from_record)
COMMAND = Shape(_command_to_record, _command_from_record)
LEASE = Shape(Lease._asdict, _lease_from_record)
HEARTBEAT = Shape(Heartbeat._asdict, _heartbeat_from_record)
CONTROL = Shape(Control._asdict, _control_from_record)
DEAD_LETTER = Shape(_dead_letter_to_record, _dead_letter_from_record)
REJECT = Shape(_reject_to_record, _reject_from_record)
SHARD_STATE = Shape(ShardState._asdict, lambda record: ShardState(**record))
JOB_STATE = Shape(
    lambda state: state._asdict() | {"edges": [edge._asdict() for edge in state.edges]},
    lambda record: JobState(**record | {"edges": tuple(Edge(**edge) for edge in record["edges"])}),
)
JOB_EVENT = Shape(JobEvent._asdict, _job_event_from_record)
OPEN_RUN = Shape(_open_run_to_record, _open_run_from_record)
RECORDED_RUN = Shape(RecordedRunState._asdict, lambda record: RecordedRunState(**record))
DAG_RUN = Shape(_dag_run_to_record, _dag_run_from_record)
DAG_NODE = Shape(KeptNode._asdict, lambda record: KeptNode(**record))
FLOW_JOB = Shape(JobFlow._asdict, lambda record: JobFlow(**record))
FLOW_RUN = Shape(_flow_run_to_record, _flow_run_from_record)
KEY_STATE = Shape(KeyState._asdict, _key_state_from_record)
GATHERING = Shape(_gathering_to_record, _gathering_from_record)
JOB_TRIGGERS = Shape(_job_triggers_to_record, _job_triggers_from_record)
RUN_LOG = Shape(_run_log_to_record, _run_log_from_record)
