"""Schedule by the HTTP API: every call answers what became of it.

``API=http://127.0.0.1:8080 API_KEY=... python examples/schedule_by_http.py``
"""

from __future__ import annotations

import os

from waterclock import Client
from waterclock.model.errors import Conflict, RequestError

API = os.environ.get("API", "http://127.0.0.1:8080")
API_KEY = os.environ.get("API_KEY", "")


def main() -> None:
    """Define, trigger, change, and meet a refusal."""
    with Client.http(API, API_KEY) as client:
        job = client.create("ship-hourly", handler="shop.ship", cron="0 * * * *", payload={"order": "hourly"})
        print(f"{job['job_id']} fires next at {job['next_fire_time']}")

        run = client.trigger("ship-hourly", idempotency_key="first-by-hand")
        print(f"triggered {run.run_id}")

        changed = client.update("ship-hourly", revision=job["revision"], tier="high")
        print(f"now of tier {changed['tier']}, revision {changed['revision']}")
        try:
            client.update("ship-hourly", revision=job["revision"], tier="low")
        except Conflict as conflict:
            print(f"refused: {conflict.message}")
        try:
            client.create("broken", handler="shop.ship", cron="0 3 * *")
        except RequestError as refused:
            print(f"refused: {refused}")

        client.pause("ship-hourly")
        print(f"status: {client.status('ship-hourly')['status']}")
        client.delete("ship-hourly")


if __name__ == "__main__":
    main()
