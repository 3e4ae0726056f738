"""The next ten fires of 50 tricky schedules, with every mark, are those of a page that brute force wrote.

The page (``tests/golden/preview.txt``) is made anew and must be the one that is kept; the preview of the API and
``waterclock cron explain`` must both say the same. So for calendars and jitter, with ``preview_calendars.txt``, where
the API alone is asked. Short: the pages alone (unit tests hold the evaluator against them).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests import preview_calendars, preview_page
from tests.acceptance.evidence import Evidence
from tests.oracle import brute_calendars, brute_preview
from tests.oracle.brute_calendars import Asked
from tests.oracle.tricky_schedules import TRICKY, Tricky
from tests.unit.api_world import ApiWorld


def main(short: bool = False) -> None:
    evidence = Evidence("preview", None)
    page = brute_preview.page()
    evidence.figure("schedules", len(TRICKY), lines=len(page.splitlines()))
    evidence.demand(len(TRICKY) >= 50, "fewer than 50 schedules")
    evidence.demand(page == brute_preview.PAGE.read_text(encoding="utf-8"), "the page that is kept is another one")
    evidence.figure("jobs with calendars", len(brute_calendars.JOBS))
    kept = brute_calendars.PAGE.read_text(encoding="utf-8")
    evidence.demand(brute_calendars.page() == kept, "the page of calendars that is kept is another one")
    if not short:
        with ApiWorld(rate_per_s=10_000, burst=10_000) as world:
            evidence.none_of(preview_page.differences(lambda tricky: _by_api(world, tricky)), "lines differ by the API")
            headers = {"Authorization": f"Bearer {world.key(tenant='acme')}"}
            for name, document in brute_calendars.CALENDARS.items():
                made = world.client.put(f"/api/v1/calendars/{name}", json=document, headers=headers)
                assert made.status_code == 201, made.text
            wrong = preview_calendars.differences(lambda asked: _with_calendars(world, asked, headers))
            evidence.none_of(wrong, "lines of jobs with calendars differ by the API")
        evidence.none_of(preview_page.differences(_by_command), "lines differ by the command line")
    evidence.close()


def _by_api(world: ApiWorld, tricky: Tricky) -> dict[str, Any]:
    """As a whole job where ``H`` needs its name, else as an expression."""
    rest = {"n": brute_preview.FIRES, "from": _after(tricky)}
    if tricky.job_id:
        definition = {"cron": tricky.text, "zone": tricky.zone, "gap": tricky.gap, "fold": tricky.fold}
        definition["name"] = tricky.job_id.partition(":")[2]
        headers = {"Authorization": f"Bearer {world.key('read', tenant=tricky.job_id.partition(':')[0])}"}
        answer = world.client.post("/api/v1/jobs/preview", params=rest, json=definition, headers=headers)
    else:
        asked = {"expr": tricky.text, "tz": tricky.zone, "gap": tricky.gap, "fold": tricky.fold}
        answer = world.client.get("/api/v1/cron/preview", params=asked | rest)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def _with_calendars(world: ApiWorld, asked: Asked, headers: dict[str, str]) -> dict[str, Any]:
    document = preview_calendars.document_of(asked) | {"name": asked.name}
    rest = {"n": brute_calendars.FIRES, "from": preview_calendars.after_of(asked)}
    answer = world.client.post("/api/v1/jobs/preview", params=rest, json=document, headers=headers)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def _by_command(tricky: Tricky) -> dict[str, Any]:
    words = [tricky.text, "--tz", tricky.zone, "-n", str(brute_preview.FIRES), "--from", _after(tricky)]
    words += ["--gap", tricky.gap, "--fold", tricky.fold, "--job", tricky.job_id, "-o", "json"]
    command = [sys.executable, "-m", "waterclock.cli", "cron", "explain", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said = dict(line.partition(": ")[::2] for line in done.stderr.splitlines() if line.startswith("read as: "))
    return {"read_as": said.get("read as", tricky.text.lower()), "next_fires": json.loads(done.stdout)}


def _after(tricky: Tricky) -> str:
    return tricky.after.replace("Z", ":00Z")
