"""What clients were told, against the log of commands: nothing acknowledged is lost, nothing refused was done.

Imports nothing of ours. ``history``: one dict for each order of a client, with ``op``, ``door`` (``api``,
``job-events``), ``job``, ``key``, ``run_id``, ``t0`` and ``t1`` (seconds, monotonic: the order began and was answered
for good), ``result`` (ok, fail, info), ``status``, ``answer``. Dumps of ``commands``, ``job_events`` and ``rejects``.
"""

import collections

from . import owed
from .records import decode

DONE = ("applied", "unchanged")


def verdicts(commands, rules=owed.Rules()):  # noqa: B008  # a value
    """{job: {offset: (idempotency key, what had to become of the command)}}."""
    found = {}
    for job, given in owed.by_job(commands).items():
        judged = owed.versions(given, {}, rules).verdicts
        keys = {command["offset"]: command["record"]["idempotency_key"] for command in given}
        found[job] = {offset: (keys[offset], verdict.word) for offset, verdict in judged.items()}
    return found


def check(history, commands, job_events, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) of every order."""
    complaints, counts = [], collections.Counter()
    places = {(record["partition"], record["offset"]) for record in job_events}
    under = collections.defaultdict(list)
    for job, judged in verdicts(commands, rules).items():
        for offset, (key, word) in sorted(judged.items()):
            under[job, key].append((offset, word))
    for order in history:
        job = order["run_id"].partition("@")[0] or order["job"]
        found = under.get((job, order["key"]), [])
        counts[f"{order['door']} {order['result']}"] += 1
        counts["orders"] += 1
        counts["asked again"] += order["tries"] > 1
        counts["given more than once"] += len(found) > 1
        complaints += [f"{order['key']} ({order['op']}): {wrong}" for wrong in _wrong(order, found, places)]
    complaints += _disorder(history, under)
    if not history:
        complaints.append("an empty history: no client said anything")
    return complaints, counts


def _wrong(order, found, places):
    """What is wrong with one order; ``found``: (offset, verdict) of the commands under its key."""
    words = collections.Counter(word for _, word in found)
    # That it was done once only, the books say: what a command had to become follows from the commands alone.
    if order["result"] == "fail" and any(words[word] for word in DONE):
        yield f"the client was told {order['status']}, and it was done"
    if order["result"] != "ok":
        return
    # A cancel of a run that had ended is answered by history: nothing is ordered.
    if not found and not (order["op"] == "cancel" and order["status"] == 200):
        yield f"acknowledged ({order['door']} {order['status']}), and no command stands in the log"
    elif found and order["status"] in (200, 201) and not any(words[word] for word in DONE):
        yield f"the client was told {order['status']}, the log says {dict(words)}"
    if order["door"] == "job-events" and (order["answer"]["partition"], order["answer"]["offset"]) not in places:
        yield f"acknowledged at {order['answer']}, and no such record stands on job-events"


def _disorder(history, under):
    """Orders on one job, one answered before the other began, stand in that order."""
    wrong = []
    by_job = collections.defaultdict(list)
    for order in history:
        found = under.get((order["job"], order["key"]))
        if found:
            by_job[order["job"]].append((order["t0"], order["t1"], found[0][0], order["key"]))
    for orders in by_job.values():
        ended = []
        for began, end, offset, key in sorted(orders):
            wrong += [f"{key} stands before {of}, which was answered first" for at, to, of in ended[-1:] if
                      to > offset and at < began]  # fmt: skip
            ended.append((end, offset, key))
    return wrong


def sources(job_events, commands, rejects, topic, prefix):
    """Complaints: each record of job-events goes on once, as a command or a reject, and nothing else does.

    A command is named by its record's place, the topic's name there without ``prefix`` and its dot.
    """
    fates = collections.Counter()
    for record in commands:
        name, _, place = decode(record["value"])[1]["command_id"].partition("/")
        if f"{prefix}.{name}" == topic:
            partition, offset = place.split("/")
            fates[int(partition), int(offset)] += 1
    for record in rejects:
        source = decode(record["value"])[1]["source"]
        if source["topic"] == topic:
            fates[source["partition"], source["offset"]] += 1
    kept = {(record["partition"], record["offset"]) for record in job_events}
    complaints = [f"job event {place}: went on {fates[place]} times" for place in sorted(kept) if fates[place] != 1]
    return complaints + [f"job event {place}: went on, and stands nowhere" for place in sorted(fates.keys() - kept)]


def refusals(commands, rejects, topic, rules=owed.Rules()):  # noqa: B008  # a value
    """Complaints: what is rejected of ``commands`` is what had to be refused, each once."""
    places = collections.defaultdict(dict)
    for record in commands:
        places[decode(record["value"])[1]["job_id"]][record["offset"]] = record["partition"]
    words = {
        (places[job][offset], offset): word
        for job, judged in verdicts(commands, rules).items()
        for offset, (_, word) in judged.items()
    }
    wanted = {place for place, word in words.items() if word == "refused"}
    # Whether a backfill could still be turned only the log knows; that each is answered the books look at.
    either = {place for place, word in words.items() if word == "turned"}
    found = collections.Counter()
    for record in rejects:
        source = decode(record["value"])[1]["source"]
        if source["topic"] == topic:
            found[source["partition"], source["offset"]] += 1
    complaints = [f"command {place}: refused, and rejected {found[place]} times" for place in sorted(wanted)
                  if found[place] != 1]  # fmt: skip
    return complaints + [
        f"command {place}: rejected, but not to be refused" for place in sorted(found.keys() - wanted - either)
    ]
