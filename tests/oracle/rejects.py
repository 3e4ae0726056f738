"""Whatever role refuses a record keeps it whole, and says why. Imports nothing of ours.

Input: dumped ``rejects``, and the dumped records of every topic that may have been refused something of. Which of them
had to be refused others say. A record that is too long to be carried is cut, and no play sends one. Only the doors read
headers, so only they keep them; and a router that follows an end no further names the event alone.
"""

import collections

from .records import decode

INTAKE, ROUTER = "intake", "retry-router"


def check(rejects, *sources):
    """(complaints, counts) of every reject."""
    stood = {
        (record["topic"], record["partition"], record["offset"]): record for records in sources for record in records
    }
    complaints, counts = [], collections.Counter()
    for record in rejects:
        _, body = decode(record["value"])
        source = body["source"]
        place = (source["topic"], source["partition"], source["offset"])
        counts[f"rejects by the {body['role']}"] += 1
        wrong = [*_wrong(record, body, stood.get(place), "/".join(map(str, place)).encode())]
        complaints += [f"{place}: its reject {each}" for each in wrong]
    return complaints, counts


def _wrong(record, body, refused, origin):
    source = body["source"]
    if not body["reason"]:
        yield "gives no reason"
    headers = dict(record["headers"])
    if headers.get("waterclock-origin") != origin:
        yield f"says in its header that it is of {headers.get('waterclock-origin')!r}"
    if not headers.get("waterclock-error"):
        yield "does not say in its headers what was wrong"
    if record["key"] != (source["key"] or origin):
        yield f"lies under the key {record['key']!r}"
    if refused is None:
        yield "is of no record"
        return
    carried = [(each["name"], each["value"]) for each in source["headers"]]
    is_whole = (source["value"] or b"") == refused["value"] or (body["role"] == ROUTER and source["value"] is None)
    if (source["key"] or b"") != (refused["key"] or b"") or not is_whole:
        yield "is not the record"
    if carried != (list(refused["headers"]) if body["role"] == INTAKE else []):
        yield "does not have the headers of the record"
