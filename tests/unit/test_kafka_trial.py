"""Free properties of the Kafka client that contradict ours are refused when a role opens its log, not in a round."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import KafkaError, KafkaException

from waterclock.clients.kafka import KafkaClient
from waterclock.log.kafka import KafkaLog
from waterclock.model.errors import BackendDown, RequestError
from waterclock.process import open_log
from waterclock.settings import KafkaSettings, Settings


def _opened(client: dict[str, str | int | float | bool], *, transaction_timeout_s: float = 10.0) -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap="127.0.0.1:1", client=client))
    open_log(settings, "dispatcher", transaction_timeout_s=transaction_timeout_s).close()


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"socket.timeout.ms": 60_000}, r"`socket\.timeout\.ms` must be set <= `transaction\.timeout\.ms`.* = 10000"),
        ({"message.timeout.ms": 60_000}, r"`message\.timeout\.ms` must be set <= `transaction\.timeout\.ms`"),
        ({"acks": 1}, "`acks` must be set to `all`"),
        ({"max.poll.interval.ms": 5_000}, r"`max\.poll\.interval\.ms`.*`session\.timeout\.ms`.* = 10000"),
        ({"receive.message.max.bytes": 10_000_000}, r"`receive\.message\.max\.bytes` must be >= `fetch\.max\.bytes`"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_property_that_contradicts_ours_is_refused_at_the_start(
    client: dict[str, str | int | float | bool], words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        _opened(client)
    assert caught.value.pointer == "/kafka/client"


def test_whether_a_time_out_fits_depends_on_the_role() -> None:
    _opened({"socket.timeout.ms": 8_000})
    with pytest.raises(RequestError, match=r"transaction\.timeout\.ms = 3000"):
        _opened({"socket.timeout.ms": 8_000}, transaction_timeout_s=3.0)


def test_a_machine_that_has_no_room_for_a_client_is_no_wrong_property(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))

    monkeypatch.setattr("waterclock.log.kafka_trial.Producer", full)
    with pytest.raises(BackendDown, match="no client can be made"):
        _opened({"client.rack": "a"})


def test_properties_that_fit_pass() -> None:
    _opened({"client.rack": "a", "socket.keepalive.enable": True, "max.poll.interval.ms": 600_000})


def test_no_token_is_asked_for_to_see_whether_properties_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a server of tokens that is silent, then the start waits for it once, not once for each client tried."""
    monkeypatch.setattr("waterclock.log.kafka_properties.check_extra", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        extra = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "waterclock",
            "sasl.oauthbearer.client.secret": "hush",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{silent.getsockname()[1]}/token",
        }
        KafkaLog("127.0.0.1:1", client_id="trial", session_timeout_s=10.0, extra=extra).check_fit()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_client_of_its_own_names_the_property_at_its_first_event() -> None:
    with (
        KafkaClient.connect("127.0.0.1:1", config={"acks": "1"}) as client,
        pytest.raises(RequestError, match="`acks` must be set to `all`") as caught,
    ):
        client.pause("nightly")
    assert caught.value.pointer == "/kafka/client"
