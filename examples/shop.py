r"""Handlers of a shop that tell others what they did, in the transaction that records their success.

waterclock up -d --app examples.shop:app

The topics must exist. In a checkout, on its stack:

for topic in shop.shipped shop.reminders; do
  java -cp 'compose/kafka/target/lib/*' org.apache.kafka.tools.TopicCommand \
    --bootstrap-server 127.0.0.1:9092 --create --if-not-exists --topic $topic
done
"""

from __future__ import annotations

from waterclock import App, Context

app = App()


@app.handler("shop.ship")
async def ship(ctx: Context) -> dict[str, str]:
    """Ship an order. The record in ``shop.shipped`` is seen if, and only if, this run succeeds."""
    order = str(ctx.json()["order"])
    # To a system outside, give both: the key is the same in every attempt, the fence only grows.
    ctx.log.info("shipping", order=order, key=ctx.idempotency_key, fence=ctx.fence)
    ctx.emit("shop.shipped", order, {"order": order, "run": ctx.run_id})
    return {"shipped": order}


@app.handler("shop.remind")
def remind(ctx: Context) -> None:
    """Plain functions run in threads, and emit as well."""
    order = str(ctx.json()["order"])
    ctx.emit("shop.reminders", order, f"order {order} is not paid yet", {"content-type": "text/plain"})
