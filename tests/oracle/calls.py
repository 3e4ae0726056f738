"""Calls that arrived outside: who called, how often, and with what right. Imports nothing of ours.

Input: a Chronicle, and the sink's ledger in order of arrival: dicts with ``run_id``, ``attempt``, ``token``,
``status`` (what the published receiver answered) and ``booked`` (whether its effect happened).
"""

import collections

MASK = (1 << 48) - 1


def check(chronicle, ledger, *, torn=(), every_success_called=True):
    """(complaints, counts): at most one call for each attempt, each of an accepted STARTED, each effect once.

    ``torn``: (run, attempt) whose call may belong to a STARTED that was not accepted (a claim that crossed a cancel).
    """
    complaints, counts = [], collections.Counter()
    calls = collections.Counter((call["run_id"], call["attempt"]) for call in ledger)
    booked, highest = collections.Counter(), {}
    torn = set(torn)
    for call in ledger:
        key = (call["run_id"], call["attempt"])
        counts["calls"] += 1
        counts[f"answered {call['status']}"] += 1
        claim = chronicle.claims.get(key)
        if key in torn and (claim is None or claim.token != call["token"] & MASK):
            counts["of a claim that crossed a cancel"] += 1
        elif claim is None:
            complaints.append(f"{key[0]} attempt {key[1]}: called, but no STARTED of it was accepted")
        elif claim.token != call["token"] & MASK:
            complaints.append(f"{key[0]} attempt {key[1]}: called under {call['token'] & MASK}, claimed {claim.token}")
        if call["booked"]:
            booked[key[0]] += 1
            counts["effects"] += 1
            if call["token"] < highest.get(key[0], 0):
                complaints.append(f"{key[0]} attempt {key[1]}: took effect after a newer attempt had called")
        highest[key[0]] = max(highest.get(key[0], 0), call["token"])
    complaints += [f"{run} attempt {attempt}: called {n} times" for (run, attempt), n in calls.items() if n > 1]
    complaints += [f"{run}: {n} effects" for run, n in booked.items() if n > 1]
    if every_success_called:
        complaints += [
            f"{run_id}: succeeded in attempt {run['attempt']}, which never called"
            for run_id, run in chronicle.runs.items()
            if run["status"] == "SUCCEEDED" and run["nodes"] is None and (run_id, run["attempt"]) not in calls
        ]
    return complaints, counts


def zombies(ledger, woken):
    """(complaints, counts): what zombies called after they woke; refused, where a newer attempt had called before.

    Where the run has taken effect already the receiver answers each repeat of its key as done: nothing to refuse.
    ``woken``: {(run, attempt): when its worker was woken}, by the sink's clock.
    """
    complaints, counts, newest, done = [], collections.Counter(), collections.Counter(), set()
    for call in ledger:
        key = (call["run_id"], call["attempt"])
        if key in woken and call["at"] >= woken[key]:
            counts["after waking"] += 1
            if newest[call["run_id"]] > call["token"]:
                counts["after a newer attempt's"] += 1
                if call["booked"] or (call["status"] != 409 and call["run_id"] not in done):
                    complaints.append(f"{key}: answered {call['status']}, effect {call['booked']}")
        if call["booked"]:
            done.add(call["run_id"])
        newest[call["run_id"]] = max(newest[call["run_id"]], call["token"])
    return complaints, counts
