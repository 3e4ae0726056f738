"""Values to bytes and bytes to values, for every record kind that we write: the front door of this package.

Must hold: what is encoded here is decoded here to an equal value, by this release and by every later one; no bytes,
however hostile, do worse than UndecodableRecord. What fastavro lets pass is refused: trailing bytes, negative union and
enum indexes, odd booleans (run events and work records are read by hand and checked in passing; job events, which
other languages write, are walked through first; a record of any other kind must be, byte for byte, what its own content
encodes to).
Encoders raise RequestError for a record over its cap (256 KiB; rejects and dead letters, which carry another record:
768 KiB).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, Generic, TypeVar, cast

from fastavro import schemaless_reader, schemaless_writer

from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import RunEvent, WorkRecord

from . import records, run_event, schemata, work_record
from .framing import BODY_AT, CARRIER_MAX, RECORD_MAX, checked, fingerprint_of
from .walk import Walk

_Value = TypeVar("_Value")


class _Plain(Generic[_Value]):
    """The codec of one record kind, by fastavro; also the slow and sure one for run events and work records."""

    def __init__(self, kind: str, shape: records.Shape[_Value], limit: int = RECORD_MAX) -> None:
        self.kind = kind
        self._schema = schemata.current(kind)
        self._shape = shape
        self._limit = limit

    def encode(self, value: _Value) -> bytes:
        """The framed record; raises RequestError over the cap."""
        return checked(_written(self._schema, self._shape.to_record(value)), self._limit)

    def decode(self, data: bytes) -> _Value:
        """The value in a framed record; raises UndecodableRecord."""
        writer = schemata.written_with(fingerprint_of(data, self._limit))
        if writer.kind != self.kind:
            raise UndecodableRecord(f"a record of kind {writer.kind} where {self.kind} belongs")
        try:
            return self._shape.from_record(self._read(writer, data))
        except UndecodableRecord:
            raise
        except Exception as error:  # the one decode seam: fastavro raises whatever hostile bytes provoke
            raise _undecodable(self.kind, error) from error

    def _read(self, writer: schemata.Schema, data: bytes) -> records.Dict:
        record = _read_with(data, writer.parsed, None)
        if _written(writer, record) != data:
            raise UndecodableRecord(f"the bytes are not the {self.kind} that they decode to")
        if writer.fingerprint != self._schema.fingerprint:
            return _read_with(data, writer.parsed, self._schema.parsed)
        return record


class _FromStrangers(_Plain[_Value]):
    """The codec of a kind that programs of others write, in whatever form of Avro's their libraries prefer."""

    def _read(self, writer: schemata.Schema, data: bytes) -> records.Dict:
        walk_of(writer.fingerprint).check(data, BODY_AT)
        is_ours = writer.fingerprint == self._schema.fingerprint
        return _read_with(data, writer.parsed, None if is_ours else self._schema.parsed)


@cache  # bounded by the number of released schemas
def walk_of(mark: bytes) -> Walk:
    """The walk through records of the released schema with this fingerprint. Raises UndecodableRecord."""
    return Walk(schemata.written_with(mark))


def _read_with(data: bytes, writer: Any, reader: Any) -> records.Dict:
    # All our schemas are records, which fastavro reads as dicts.
    return cast("records.Dict", schemaless_reader(BytesIO(data[BODY_AT:]), writer, reader))


def _written(schema: schemata.Schema, record: records.Dict) -> bytes:
    out = BytesIO()
    out.write(schema.frame)
    schemaless_writer(out, schema.parsed, record)
    return out.getvalue()


def _undecodable(kind: str, error: Exception) -> UndecodableRecord:
    return UndecodableRecord(f"no {kind}: {type(error).__name__}: {str(error)[:200]}")


_event = _Plain("run_event", records.EVENT)
_work = _Plain("work_record", records.WORK)
_command = _Plain("command", records.COMMAND)
_lease = _Plain("lease", records.LEASE)
_heartbeat = _Plain("heartbeat", records.HEARTBEAT)
_control = _Plain("control", records.CONTROL)
_dead_letter = _Plain("dead_letter", records.DEAD_LETTER, CARRIER_MAX)
_reject = _Plain("reject", records.REJECT, CARRIER_MAX)
_shard_state = _Plain("shard_state", records.SHARD_STATE)
_job_state = _Plain("job_state", records.JOB_STATE)
_job_event = _FromStrangers("job_event", records.JOB_EVENT)
_key_state = _Plain("key_state", records.KEY_STATE)
_open_run = _Plain("open_run", records.OPEN_RUN)
_recorded_run = _Plain("recorded_run", records.RECORDED_RUN, CARRIER_MAX)
_job_triggers = _Plain("job_triggers", records.JOB_TRIGGERS)
_gathering = _Plain("gathering", records.GATHERING)
_run_log = _Plain("run_log", records.RUN_LOG)
_dag_run = _Plain("dag_run", records.DAG_RUN)
_dag_node = _Plain("dag_node", records.DAG_NODE)
_flow_job = _Plain("flow_job", records.FLOW_JOB)
_flow_run = _Plain("flow_run", records.FLOW_RUN)


def encode_event(event: RunEvent) -> bytes:
    """The framed record; raises RequestError over the cap."""
    return checked(run_event.put_event(event))


def decode_event(data: bytes) -> RunEvent:
    """The event in a framed record; raises UndecodableRecord."""
    if data[:BODY_AT] != run_event.FRAME or len(data) > RECORD_MAX:
        return _event.decode(data)
    try:
        return run_event.get_event(data)
    except (IndexError, KeyError, ValueError) as error:
        raise _undecodable("run_event", error) from error


def encode_work(work: WorkRecord) -> bytes:
    """The framed record; raises RequestError over the cap."""
    return checked(work_record.put_work(work))


def decode_work(data: bytes) -> WorkRecord:
    """The work in a framed record; raises UndecodableRecord."""
    if data[:BODY_AT] != work_record.FRAME or len(data) > RECORD_MAX:
        return _work.decode(data)
    try:
        return work_record.get_work(data)
    except (IndexError, KeyError, ValueError) as error:
        raise _undecodable("work_record", error) from error


encode_command, decode_command = _command.encode, _command.decode
encode_lease, decode_lease = _lease.encode, _lease.decode
encode_heartbeat, decode_heartbeat = _heartbeat.encode, _heartbeat.decode
encode_control, decode_control = _control.encode, _control.decode
encode_dead_letter, decode_dead_letter = _dead_letter.encode, _dead_letter.decode
encode_reject, decode_reject = _reject.encode, _reject.decode
encode_shard_state, decode_shard_state = _shard_state.encode, _shard_state.decode
encode_job_state, decode_job_state = _job_state.encode, _job_state.decode
encode_job_event, decode_job_event = _job_event.encode, _job_event.decode
encode_key_state, decode_key_state = _key_state.encode, _key_state.decode
encode_open_run, decode_open_run = _open_run.encode, _open_run.decode
encode_recorded_run, decode_recorded_run = _recorded_run.encode, _recorded_run.decode
encode_job_triggers, decode_job_triggers = _job_triggers.encode, _job_triggers.decode
encode_gathering, decode_gathering = _gathering.encode, _gathering.decode
encode_run_log, decode_run_log = _run_log.encode, _run_log.decode
encode_dag_run, decode_dag_run = _dag_run.encode, _dag_run.decode
encode_dag_node, decode_dag_node = _dag_node.encode, _dag_node.decode
encode_flow_job, decode_flow_job = _flow_job.encode, _flow_job.decode
encode_flow_run, decode_flow_run = _flow_run.encode, _flow_run.decode

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "run_event": decode_event,
    "work_record": decode_work,
    "command": decode_command,
    "lease": decode_lease,
    "heartbeat": decode_heartbeat,
    "control": decode_control,
    "dead_letter": decode_dead_letter,
    "reject": decode_reject,
    "shard_state": decode_shard_state,
    "job_state": decode_job_state,
    "key_state": decode_key_state,
    "open_run": decode_open_run,
    "recorded_run": decode_recorded_run,
    "job_event": decode_job_event,
    "job_triggers": decode_job_triggers,
    "gathering": decode_gathering,
    "run_log": decode_run_log,
    "dag_run": decode_dag_run,
    "dag_node": decode_dag_node,
    "flow_job": decode_flow_job,
    "flow_run": decode_flow_run,
}


def decode_any(data: bytes) -> Any:
    """The value in a framed record of any kind that we write, told by its fingerprint; raises UndecodableRecord."""
    kind = schemata.written_with(fingerprint_of(data)).kind
    decode = _DECODERS.get(kind)
    if decode is None:
        raise UndecodableRecord(f"records of kind {kind} are not read by this release")
    return decode(data)
