"""The promises of the doors (API, job-events), and of the rest at the end: see ``checkers.py``, whose list they are on.

They hold the clients' own history (``history.py``) against what stands in the log. What a sender meant is known from
the history; what the intake made of a record is judged by its place, its id and its bytes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from tests.oracle import acknowledged
from tests.oracle.records import decode

from .dumps import Dumps, RawRecord
from .history import Line

Counts = Counter[str]
Place = tuple[str, int, int]
COMMANDS = "waterclock.commands"


class _Command(NamedTuple):
    offset: int
    partition: int
    command_id: str
    actor: str
    job_id: str
    key: str


def nothing_acknowledged_is_lost(dumps: Dumps, counts: Counts) -> list[str]:
    """I3: every ok of a client stands in the log; the order in which a job was changed is the log's."""
    commands = _commands(dumps)
    by_op = defaultdict(list)
    for command in commands:
        if command.command_id.startswith("api-"):
            by_op[command.command_id.removeprefix("api-").partition("/")[0]].append(command)
    complaints = []
    for line in dumps.history:
        if line.door == "api" and line.result == "ok":
            counts["acknowledged"] += 1
            if not by_op[line.op] and not any(_is_same(line, command) for command in commands):
                complaints.append(f"{line.op} {line.kind} {line.job_id}: answered {line.status}, and no command of it")
    standing = {_place(record) for record in dumps.job_events}
    complaints += [
        f"{line.op}: {line.result} for its sender, {line.place} in job-events: {line.result != 'ok'}"
        for line in dumps.history
        if line.place is not None and (line.place in standing) != (line.result == "ok")
    ]
    return [f"I3 {complaint}" for complaint in complaints + _out_of_order(dumps, by_op)]


def _is_same(line: Line, command: _Command) -> bool:
    """A replayed answer sent nothing: the command is its tenant's first about this job under this key."""
    own = f"{line.tenant}:{line.job_id.partition(':')[2]}"
    is_theirs = command.actor.startswith("api:") and command.job_id == own
    return bool(line.key) and command.key == line.key and is_theirs


def _out_of_order(dumps: Dumps, by_op: dict[str, list[_Command]]) -> list[str]:
    """Two operations on one job of which one returned before the other was called."""
    lines = [line for line in dumps.history if line.door == "api" and line.result == "ok" and not line.is_replay]
    last: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    complaints = []
    for line in sorted(lines, key=lambda each: each.called_at):
        found = by_op[line.op]
        if not found:
            continue
        job_id = found[0].job_id
        offset = max(command.offset for command in found)
        before = [(at, op) for returned_at, at, op in last[job_id] if returned_at < line.called_at]
        complaints += [
            f"{job_id}: {line.op} was called after {op}, and stands before it" for at, op in before if at > offset
        ]
        last[job_id].append((line.returned_at, min(command.offset for command in found), line.op))
    return complaints


def same_key_same_answer(dumps: Dumps, counts: Counts) -> list[str]:
    """I3: a request that is repeated under its key has one answer, and one effect, as the books judge.

    Whoever asks after somebody was answered gets an answer that was given before, but for the warnings, which say what
    one process knows of workers; what is replayed is the same to the byte. Two that are asked at once, each of its
    process, are both shown the job, each as it stands then, and either may be what is replayed: also while the client
    of that one has not heard it yet.
    """
    answers: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in dumps.history:
        if line.door == "api" and line.key and line.result == "ok" and line.status != 202:
            answers[line.tenant, line.key, line.kind].append(line)
    complaints = []
    for (tenant, key, kind), lines in sorted(answers.items()):
        counts["answers of one key"] += len(lines) > 1
        replayed = {(line.status, line.answer) for line in lines if line.is_replay}
        first_at = min(line.returned_at for line in lines)
        at_once = {_said(line) for line in lines if line.called_at <= first_at}
        before = [(line, {_said(one) for one in lines if one.returned_at < line.called_at}) for line in lines]
        others = sum(bool(given) and _said(line) not in given | at_once for line, given in before)
        if len(replayed) > 1 or others:
            complaints.append(f"I3 {tenant} {key} {kind}: {others} other answers than before, {len(replayed)} replayed")
    return complaints


def _said(line: Line) -> tuple[int, str]:
    return line.status, _without_warnings(line.answer)


def _without_warnings(answer: bytes) -> str:
    try:
        document = json.loads(answer)
    except ValueError:
        return repr(answer)
    return repr({name: part for name, part in document.items() if name != "warnings"})


def refused_commands_are_rejected(dumps: Dumps, _counts: Counts) -> list[str]:
    """I11: what is refused of ``commands`` is rejected, each once, and nothing else is."""
    complaints = acknowledged.refusals(dumps.commands, dumps.rejects, COMMANDS, dumps.rules)
    return [f"I11 {complaint}" for complaint in complaints]


def job_events_end_once(dumps: Dumps, counts: Counts) -> list[str]:
    """I3, I11: each job event came to one command or to one reject, in its tenant's name, and a reject is whole."""
    rejects: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for record in dumps.rejects:
        _, reject = decode(record["value"])
        if reject["role"] == "intake":
            source = reject["source"]
            rejects[source["topic"], source["partition"], source["offset"]].append(reject)
    lines = {line.place: line for line in dumps.history if line.place is not None}
    complaints = []
    taken: Counter[tuple[str, str]] = Counter()
    for record in dumps.job_events:
        place, found = _place(record), rejects.pop(_place(record), [])
        line = lines.get(place)
        if line is None:
            complaints.append(f"I3 {place}: nobody sent this job event")
        elif len(found) > 1 or bool(found) == line.is_sound:
            complaints.append(f"I11 {place} ({line.op} {line.door} {line.job_id}): {len(found)} rejects")
        elif found:
            counts["rejected at the door"] += 1
            complaints += [f"I11 {place}: {wrong}" for wrong in _wrong_reject(found[0], record)]
        if not found and line is not None:
            taken[_id_of(record), line.job_id] += 1
            counts["taken at the door"] += 1
    complaints += [f"I11 {place}: a reject of no record" for place in rejects]
    made = Counter((each.command_id, each.job_id) for each in _commands(dumps) if each.actor.startswith("job-events"))
    complaints += [
        f"I3 {key}: sent {taken[key]} times as a job event, {made[key]} commands"
        for key in sorted(taken | made)
        if taken[key] != made[key]
    ]
    return complaints


def _wrong_reject(reject: dict[str, Any], record: RawRecord) -> list[str]:
    headers = [(each["name"], each["value"]) for each in reject["source"]["headers"]]
    source = reject["source"]
    wrong = [] if reject["reason"] else ["its reject gives no reason"]
    is_whole = (source["key"] or b"") == (record["key"] or b"") and headers == list(record["headers"])  # type: ignore[call-overload]
    return wrong + (
        [] if is_whole and (source["value"] or b"") == record["value"] else ["its reject is not the record"]
    )


def tenants_are_apart(dumps: Dumps, counts: Counts) -> list[str]:
    """I15: nobody's request, record or list reaches another tenant's job."""
    complaints = []
    tenants = {line.op: line.tenant for line in dumps.history}
    for command in _commands(dumps):
        op = command.command_id.removeprefix("api-").partition("/")[0]
        tenant = tenants.get(op, "") if command.actor.startswith("api:") else ""
        tenant = {"job-events": "t", "job-events.acme": "acme"}.get(command.actor, tenant)
        counts[f"commands of {tenant}"] += bool(tenant)
        if tenant and command.job_id.partition(":")[0] != tenant:
            complaints.append(f"{command.command_id} of {tenant}: a command about {command.job_id}")
    for tenant, job_ids in dumps.listed.items():
        complaints += [
            f"{job_id} stands in the list of {tenant}" for job_id in job_ids if job_id.partition(":")[0] != tenant
        ]
    for record in [*dumps.events, *dumps.work, *dumps.letters, *dumps.control]:
        body = decode(record["value"])[1]
        job_id = body.get("job_id") or body["run_id"].partition("@")[0]
        if record["key"] and bytes(record["key"]).partition(b"/")[0] != job_id.encode():  # type: ignore[arg-type]
            complaints.append(f"{record['topic']}: a record of {job_id} under the key {record['key']!r}")
    counts["asked for another tenant's"] += sum(1 for line in dumps.history if not line.job_id.startswith(line.tenant))
    return [f"I15 {complaint}" for complaint in complaints]


def everybody_is_at_rest(dumps: Dumps, _counts: Counts) -> list[str]:
    """I16: nothing is open, and every group has committed the ends of what it reads, without anybody's hand."""
    return [
        *(f"I16 {topic}[{number}]: open from {lso} on, its end is {end}" for topic, number, lso, end in dumps.unstable),
        *(
            f"I16 {group} {topic}[{number}]: stands at {at}, the end is {end}"
            for group, topic, number, at, end in dumps.lagging
        ),
        *(f"I16 {line.op}: its client still waits" for line in dumps.history if line.returned_at < 0),
    ]


def _commands(dumps: Dumps) -> list[_Command]:
    found = []
    for record in dumps.commands:
        body = decode(record["value"])[1]
        offset, partition = int(str(record["offset"])), int(str(record["partition"]))
        found.append(
            _Command(offset, partition, body["command_id"], body["actor"], body["job_id"], body["idempotency_key"])
        )
    return found


def _place(record: RawRecord) -> Place:
    return str(record["topic"]), int(str(record["partition"])), int(str(record["offset"]))


def _id_of(record: RawRecord) -> str:
    """Its ``ce_id``, or where it stands."""
    headers = dict(record["headers"])  # type: ignore[call-overload]
    topic, partition, offset = _place(record)
    given = headers.get("ce_id", b"").decode()
    return given or f"{topic.removeprefix('waterclock.')}/{partition}/{offset}"
