"""``python -m tests.chaos.judge_again FOLDER``: judge a play once more by what it kept, without any server.

For whoever sharpens a judge, or doubts one. What only servers can tell (open transactions) is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.acceptance.at_rest import AtRest
from tests.acceptance.evidence import Evidence
from tests.acceptance.judge_all import judge_taken
from tests.chaos import judging
from tests.chaos.cast import clients_spec, jobs_of
from tests.chaos.deeds import Deed
from tests.chaos.keeping import load
from waterclock.wire.names import Names


def main(folder: Path) -> None:
    """Raises FallsShort."""
    evidence = Evidence("chaos, judged again", None)
    taken = load(folder / "dumps", folder / "sink.jsonl")
    deeds = [Deed(**json.loads(line)) for line in (folder / "deeds.jsonl").read_text().splitlines()]
    notes = [json.loads(line) for line in (folder / "proxy-kafka.jsonl").read_text().splitlines()]
    told = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    specs = jobs_of(taken.commands) | {order["job"]: clients_spec() for order in told}
    found = AtRest(evidence, Names("waterclock"), specs, taken.chronicle(), taken)
    # Nothing is owed after the last delete: any instant behind it is the end.
    until = max(record["timestamp_us"] for record in taken.commands)
    judge_taken(found, until, judging.excuses(deeds, notes))
    judging.judge_history(found, told)
    evidence.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
