"""Was every run tried again as its policy says, and given up only then? Imports nothing of ours.

Input: a Chronicle, and the policy of each run: from what its job's commands say (``makings.meant``), or where nobody
has those from the dumped work records, which carry it as stored text. Judged are the accepted RETRYING and RUN_FAILED:
how many attempts counted before, the class of the last error, and how long was to be waited.
"""

import collections
import json

from .records import decode

NEVER = ("gone", "egress-refused", "executor-refused", "program-refused", "body-refused")
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
        ended = (run_id, chronicle.runs[run_id]["attempt"]) in chronicle.ends
        if kind == "RUN_FAILED" and not ended:
            complaints.append(f"{run_id}: given up, and its last attempt has no end")
        elif kind == "RUN_FAILED" and run_id in policies and run_id not in once:
            end, spent = _before(chronicle, run_id, chronicle.runs[run_id]["attempt"] + 1)
            counts["given up"] += 1
            if not _may_give_up(policies[run_id], end, spent, reason):
                complaints.append(f"{run_id}: given up after {spent} attempts that count ({reason})")
    return complaints, counts


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


def _may_give_up(policy, end, spent, reason):
    if reason == "work-record-gone" or (reason == "expired" and policy["run_timeout_us"]):
        return True
    return end.kind == "ATTEMPT_CANCELLED" or spent >= _limit(policy, _class_of(end))
