"""The ledger: fires owed = runs made + fires skipped, by shard and hour, proved from what the log and the store keep.

``duties`` says what is owed, ``facts`` what was decided, ``balance`` holds one against the other: all three are pure.
``shards`` reads a shard's facts and versions and has them judged. ``docs/ledger.md`` says what a verdict means.
"""
