"""Was every run tried again as its policy says, and given up only then? Imports nothing of ours.

Input: a Chronicle, and the policy of each run: from what its job's commands say (``makings.meant``), or where nobody
has those from the dumped work records, which carry it as stored text. Judged are the accepted RETRYING and RUN_FAILED:
how many attempts counted before, the class of the last error, and how long was to be waited; and of what has expired,
whether its time was over by then.
"""

import collections
import json

from .records import decode

NEVER = ("gone", "egress-refused", "executor-refused", "program-refused", "body-refused")
EXPIRED, WORK_GONE = "expired", "work-record-gone"
WORDS = {"ATTEMPT_FAILED": "failed", "ATTEMPT_TIMED_OUT": "timed-out", "ATTEMPT_LOST": "lost"}
DEFAULT = {
    "max_attempts": 4,
    "backoff": "exponential",
    "delays_us": [1_000_000],
    "max_delay_us": 3_600_000_000,
    "jitter": True,
    "never": [],
    "by_class": [],
    "run_timeout_us": 0,
}


def check(chronicle, work=(), meant=None):
    """(complaints, counts). ``meant``: {run id: Making}; it goes before what the work says of itself."""
    complaints, counts = [], collections.Counter()
    policies, once = {}, set()
    for record in work:
        body = decode(record["value"])[1]
        policies[body["run_id"]] = DEFAULT | json.loads(body["policy"] or "{}")
        once |= {body["run_id"]} if body["at_most_once"] else set()
    for run_id, making in (meant or {}).items():
        policies[run_id] = DEFAULT | making.policy
        once = once | {run_id} if making.at_most_once else once - {run_id}
    for (run_id, attempt), retry in chronicle.retries.items():
        if run_id not in policies:
            complaints.append(f"{run_id}: tried again, and no work of it was ever seen")
            continue
        if (run_id, attempt - 1) not in chronicle.ends:
            complaints.append(f"{run_id}: attempt {attempt} was promised, and the one before has no end")
            continue
        end, spent = _before(chronicle, run_id, attempt)
        wrong = _wrong_retry(policies[run_id], end, spent, retry["delay_us"])
        wrong = "it is called at most once" if run_id in once and end.error_class != "drained" else wrong
        complaints += [f"{run_id}: attempt {attempt} was promised, but {wrong}"] if wrong else []
        counts["retries"] += 1
        counts["handed back"] += end.error_class == "drained"
    for run_id, (kind, reason) in chronicle.verdicts.items():
        counts["expired"] += kind == "RUN_EXPIRED"
        counts["given up"] += kind == "RUN_FAILED" and run_id in policies and run_id not in once
        early = _expired_early(chronicle, run_id) if reason == EXPIRED and kind == "RUN_EXPIRED" else ""
        wrong = early or (_wrong_end(chronicle, run_id, reason, policies, once) if kind == "RUN_FAILED" else "")
        complaints += [f"{run_id}: {wrong}"] if wrong else []
    return complaints, counts


def _wrong_end(chronicle, run_id, reason, policies, once):
    """What is wrong with a run that was given up after its last attempt; "" where nothing is."""
    last = chronicle.runs[run_id]["attempt"]
    if (run_id, last) not in chronicle.ends:
        return "given up, and its last attempt has no end"
    if run_id not in policies:
        return ""
    policy, (end, spent) = policies[run_id], _before(chronicle, run_id, last + 1)
    if run_id in once and end.error_class != "drained":
        return ""
    if end.kind == "ATTEMPT_CANCELLED" or spent >= _limit(policy, _class_of(end)) or reason == WORK_GONE:
        return ""
    if reason == EXPIRED and policy["run_timeout_us"]:
        return _given_up_early(chronicle, run_id, end, spent, policy)
    return "" if run_id in once else f"given up after {spent} attempts that count ({reason})"


def _expired_early(chronicle, run_id):
    """What is wrong with a run that has expired while it waited; "" where nothing is.

    Its router has read the very stamps that are read here, and decided by the clock by which it says when that was: so
    no clock that is ahead is forgiven. Of DagRuns others judge (``dag_runs.py``).
    """
    age, at = chronicle.ages.get(run_id), chronicle.verdict_at[run_id]
    if chronicle.runs[run_id]["nodes"] is not None:
        return ""
    over_at = age and age.over_at()
    if over_at is None:
        return f"expired at {at}, and it has no limit"
    return f"expired at {at}, and its time is over at {over_at} ({age})" if at < over_at else ""


def _given_up_early(chronicle, run_id, end, spent, policy):
    """Likewise of one whose next attempt could only begin when the time of the whole run is over.

    How long that one was to wait nobody says: with jitter up to the longest wait of the policy.
    """
    age, at, most = chronicle.ages[run_id], chronicle.verdict_at[run_id], 0
    if end.error_class != "drained":
        most = max(_bounds(policy, _class_of(end), spent)[1], min(end.retry_after_us, policy["max_delay_us"]))
    over_at = age.since + age.run_us
    if at + most < over_at:
        return f"expired at {at}, it waits {most} us at most, and its time is over at {over_at} ({age})"
    return ""


def _before(chronicle, run_id, attempt):
    """The end of the attempt before this one, and how many attempts count up to it."""
    ends = [chronicle.ends.get((run_id, number)) for number in range(1, attempt)]
    return ends[-1], sum(end is not None and end.error_class != "drained" for end in ends)


def _class_of(end):
    return end.error_class or WORDS.get(end.kind, "")


def _limit(policy, word):
    """How many attempts errors of this class may have; 0: no other one."""
    rule = next((rule for rule in policy["by_class"] if rule["error_class"] == word), None)
    if word in policy["never"] or (rule is None and word in NEVER):
        return 0
    return (rule and rule["max_attempts"]) or policy["max_attempts"]


def _wrong_retry(policy, end, spent, delay_us):
    """What is wrong with it; "" where nothing is."""
    if end.error_class == "drained":
        return "what was handed back does not wait" if delay_us else ""
    if spent >= _limit(policy, _class_of(end)):
        return f"{spent} attempts have counted"
    least, most = _bounds(policy, _class_of(end), spent)
    asked = min(end.retry_after_us, policy["max_delay_us"])
    if not max(least, asked) <= delay_us <= max(most, asked):
        return f"it waits {delay_us} us, not {max(least, asked)} to {max(most, asked)}"
    return ""


def _bounds(policy, word, spent):
    """The shortest and the longest wait that the policy allows after so many attempts."""
    rule = next((rule for rule in policy["by_class"] if rule["error_class"] == word), None)
    delays = (rule and rule["delays_us"]) or policy["delays_us"]
    if (rule and rule["delays_us"]) or policy["backoff"] == "list":
        delay = delays[min(spent, len(delays)) - 1]
        return delay, delay
    if policy["backoff"] == "fixed":
        return delays[0], delays[0]
    most = min(delays[0] * 2 ** (spent - 1), policy["max_delay_us"])
    return (0 if policy["jitter"] else most), most
