"""How records go out: under which key, in which partition, with which text headers. Imports nothing of ours.

Input: dumped records with ``topic``, ``partition``, ``key`` and ``headers`` (pairs of name and bytes); ``told``, what
``runs.tell_all`` makes of run-events. A key's partition is that of Kafka's own clients in Java, the key of all that
speaks of a job its id, that of a node's work the job's id and the node. Who reads run-events drops what repeats a
``ce_id``: so no two events that count have the same one.
"""

import collections
import datetime as dt
import functools

from .records import decode

WORDS = {
    "ATTEMPT_SUCCEEDED": "succeeded",
    "RUN_FAILED": "failed",
    "RUN_EXPIRED": "expired",
}
OF_JOBS = {"REVISED": "job.revised", "ANSWERED": "job.answered", "BACKFILL": "job.backfill"}
ALWAYS = {"ce_specversion": b"1.0", "content-type": b"application/avro"}
WAITS = ("waterclock-due", "waterclock-hop")
LARGEST = 1_024
_32 = 0xFFFFFFFF


def check(told, events, work, waiting, commands, control, partitions):
    """(complaints, counts) of every record. ``partitions``: how many the keyed topics have."""
    counts = collections.Counter()
    complaints = _repeated_ids(told)
    for record in events:
        _, event = decode(record["value"])
        wanted = _of_event(event)
        complaints += _wrong(record, event["job_id"], wanted, partitions, event["at"])
    for record in work + waiting:
        _, body = decode(record["value"])
        _, _, node = body["run_id"].partition("/")
        counts["work of nodes under keys of their own"] += bool(node)
        complaints += _wrong(record, f"{body['job_id']}/{node}" if node else body["job_id"], _of_work(body), partitions)
        waits = [name for name, _ in record["headers"] if name in WAITS]
        if sorted(waits) != (sorted(WAITS) if ".delay." in record["topic"] else []):
            complaints.append(f"{_place(record)}: work of {body['run_id']} with the headers {waits}")
    for record in control:
        _, body = decode(record["value"])
        wanted = {"ce_subject": body["run_id"], "waterclock-tenant": body["job_id"].partition(":")[0]}
        complaints += _wrong(record, body["job_id"], wanted, partitions, body["at"])
    for record in commands:
        _, body = decode(record["value"])
        wanted = {"ce_subject": body["job_id"], "ce_id": body["command_id"]}
        complaints += _wrong(record, body["job_id"], wanted, partitions)
    counts["envelopes"] = sum(map(len, (events, work, waiting, control, commands)))
    return complaints, counts


def _repeated_ids(told):
    """Events that count, and bear the id of one that counted before: a reader that drops repeats never sees them."""
    seen, complaints = {}, []
    for (record, event, _, after), _ in told:
        if after is None:
            continue
        name = dict(record["headers"]).get("ce_id")
        if name in seen:
            complaints.append(f"{event['run_id']}: its {event['kind']} bears the id of {seen[name]}: {name!r}")
        seen[name] = event["kind"]
    return complaints


def _of_event(event):
    kind, run_id, job_id = event["kind"], event["run_id"], event["job_id"]
    wanted = {
        "ce_subject": run_id or job_id,
        "waterclock-attempt": str(event["attempt"]),
        "waterclock-tenant": job_id.partition(":")[0],
        "ce_id": _id_of(event),
        "ce_type": f"io.waterclock.{OF_JOBS.get(kind) or f'run.{_word(kind)}'}",
    }
    return wanted | ({"waterclock-fence": str(event["token"])} if event["token"] else {})


def _word(kind):
    return WORDS.get(kind, kind.lower().replace("_", "-"))


def _id_of(event):
    kind, job_id = event["kind"], event["job_id"]
    if kind == "REVISED":
        return f"{job_id}/{event['revised']['revision']}/revised"
    if kind == "ANSWERED":
        return f"{job_id}/{event['answered']['offset']}/answered"
    if kind == "BACKFILL":
        return f"{job_id}~{event['backfilled']['number']}/{event['backfilled']['seq']}/backfill"
    number = event["at"] if kind in ("DAG_PAUSED", "DAG_RESUMED") else event["attempt"]
    return f"{event['run_id']}/{number}/{_word(kind)}"


def _of_work(body):
    run_id = body["run_id"]
    return {
        "ce_subject": run_id,
        "idempotency-key": run_id,
        "ce_id": f"{run_id}/{body['attempt']}/work",
        "waterclock-attempt": str(body["attempt"]),
        "waterclock-tenant": body["job_id"].partition(":")[0],
    }


def _wrong(record, key, wanted, partitions, at=None):
    """What is wrong with one record."""
    raw, headers = key.encode(), dict(record["headers"])
    if record["key"] != raw:
        yield f"{_place(record)}: under the key {record['key']!r}, not {raw!r}"
    elif partition_of(raw, partitions) != record["partition"]:
        yield f"{_place(record)}: {raw!r} belongs to partition {partition_of(raw, partitions)}"
    differ = [name for name, text in wanted.items() if headers.get(name) != text.encode()]
    differ += [name for name, text in ALWAYS.items() if headers.get(name) != text]
    differ += [name for name in ("ce_source", "ce_time") if not headers.get(name)]
    if at is not None and headers.get("ce_time") != _time(at):
        differ.append("ce_time")
    if len(headers) != len(record["headers"]):
        differ.append("one that stands twice")
    if sum(len(name) + len(text) for name, text in record["headers"]) > LARGEST:
        differ.append("more than 1 KiB of them")
    if differ:
        yield f"{_place(record)}: of its headers wrong: {', '.join(differ)}: {headers}"


def _place(record):
    return f"{record['topic']} {record['partition']}@{record['offset']}"


@functools.lru_cache(maxsize=4_096)
def _time(at):
    """RFC 3339 in UTC, with microseconds where there are any."""
    second, fraction = divmod(at, 1_000_000)
    text = dt.datetime.fromtimestamp(second, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{fraction:06d}Z".encode() if fraction else f"{text}Z".encode()


@functools.lru_cache(maxsize=16_384)
def partition_of(key, partitions):
    """Where Java's own producer puts a key."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data):
    """32 bits, with Kafka's seed."""
    mixed, whole = (0x9747B28C ^ len(data)) & _32, len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & _32
        mixed = (mixed * 0x5BD1E995 & _32) ^ ((word ^ word >> 24) * 0x5BD1E995 & _32)
    if len(data) > whole:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & _32
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & _32
    return mixed ^ mixed >> 15
