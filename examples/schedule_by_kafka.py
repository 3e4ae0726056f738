"""Schedule by Kafka: no server of ours in between. ``KAFKA=127.0.0.1:9092 python examples/schedule_by_kafka.py``."""

from __future__ import annotations

import os

from waterclock import Client

KAFKA = os.environ.get("KAFKA", "127.0.0.1:9092")


def main() -> None:
    """Define a job, define many for one wait, and trigger one."""
    with Client.kafka(KAFKA) as client:
        receipt = client.create(
            "ship-nightly",
            handler="shop.ship",
            cron="0 3 * * *",
            zone="Europe/Berlin",
            payload={"order": "nightly"},
        )
        print(f"{receipt.job_id}: {receipt.topic}[{receipt.partition}]@{receipt.offset}")

        with client.batch() as batch:
            for number in range(20):
                batch.create(f"ship-{number}", handler="shop.ship", every="1h", payload={"order": number})
        print(f"{len(batch.receipts)} more")

        # The same key again, by whomever and whenever in the next 24 hours, makes no second run.
        for _ in range(2):
            client.trigger("ship-nightly", payload={"order": "now"}, idempotency_key="ship-now-4711")


if __name__ == "__main__":
    main()
