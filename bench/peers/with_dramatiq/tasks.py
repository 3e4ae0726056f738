"""Dramatiq on Redis or on RabbitMQ, as the address says."""

from __future__ import annotations

import dramatiq
from dramatiq.broker import Broker
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AgeLimit, Callbacks, Pipelines, Retries, ShutdownNotifications, TimeLimit

from bench.peers import handler


def broker_of(address: str) -> Broker:
    """The broker at an address, with dramatiq's own choice of middleware, less its metrics server."""
    middleware = [AgeLimit(), TimeLimit(), ShutdownNotifications(), Callbacks(), Pipelines(), Retries()]
    if address.startswith("amqp:"):
        return RabbitmqBroker(url=address, middleware=middleware)
    return RedisBroker(url=address, middleware=middleware)


dramatiq.set_broker(broker_of(handler.SERVER))


@dramatiq.actor
def noop(index: int) -> None:
    """Say that it ran."""
    handler.stamp(index)
