r"""Schedule inside a transaction of your own: the order and its reminder, both or neither.

``KAFKA=127.0.0.1:9092 python examples/order_desk.py``

The topic ``shop.orders`` must exist. In a checkout, on its stack:

java -cp 'compose/kafka/target/lib/*' org.apache.kafka.tools.TopicCommand \
  --bootstrap-server 127.0.0.1:9092 --create --if-not-exists --topic shop.orders
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from waterclock import Client

KAFKA = os.environ.get("KAFKA", "127.0.0.1:9092")
REMIND_AFTER = timedelta(seconds=float(os.environ.get("REMIND_AFTER_S", "86400")))


def take_order(producer: Producer, client: Client.Kafka, order: str, *, is_paid: bool) -> None:
    """Write the order and schedule its reminder; an order that is paid at once needs neither."""
    producer.begin_transaction()
    producer.produce("shop.orders", key=order, value=json.dumps({"order": order}))
    client.in_transaction(producer).create(
        f"remind-{order}",
        handler="shop.remind",
        at=(datetime.now(UTC) + REMIND_AFTER).isoformat(),
        payload={"order": order},
    )
    if is_paid:
        producer.flush(10)
        producer.abort_transaction(10)
    else:
        producer.commit_transaction(10)


def main() -> None:
    """Take two orders, and change one's mind."""
    producer = Producer({"bootstrap.servers": KAFKA, "transactional.id": "shop-order-desk"})
    producer.init_transactions(30)
    with Client.kafka(KAFKA) as client:
        take_order(producer, client, "a-1", is_paid=False)
        take_order(producer, client, "a-2", is_paid=True)
    print("a-1 will be reminded of, a-2 never existed")


if __name__ == "__main__":
    main()
