"""A Kafka and a Cassandra behind TLS, passwords and rights, from local JVMs; certificates by the JDK's keytool.

Kafka: SASL_SSL with SCRAM-SHA-512, KRaft's StandardAuthorizer, nobody allowed anything but ``admin``. Cassandra: TLS,
PasswordAuthenticator, CassandraAuthorizer. The controller's own listener is open on loopback (a broker's inner matter).
"""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

from tests.free_ports import free_port
from waterclock.stack.java import find_java
from waterclock.stack.kafka_server import Doors
from waterclock.stack.servers import Server, find_kit, launch_cassandra, launch_kafka

STORE_WORD = "changeit"
ROLES = ("dispatcher", "worker", "retry-router", "dag-engine", "recorder", "intake", "api", "operator", "producer")

_BROKER = """\
listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SASL_SSL://127.0.0.1:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required username="admin" password="ADMIN";
ssl.keystore.type=PKCS12
ssl.keystore.location=KEYSTORE
ssl.keystore.password=changeit
ssl.key.password=changeit
ssl.truststore.type=PKCS12
ssl.truststore.location=TRUSTSTORE
ssl.truststore.password=changeit
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"""


class Certificate:
    """A self-signed certificate for 127.0.0.1: ``pem`` is whom to believe, ``keystore`` what a server shows."""

    def __init__(self, folder: Path, name: str) -> None:
        self.keystore = folder / f"{name}.p12"
        self.truststore = folder / f"{name}-trust.p12"
        self.pem = folder / f"{name}.pem"
        names = ["-dname", f"CN={name}", "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-ext", "bc:c=ca:true"]
        kind = ["-keyalg", "RSA", "-keysize", "2048", "-validity", "2"]
        self._tool("-genkeypair", "-alias", "server", *kind, *names, store=self.keystore)
        self._tool("-exportcert", "-rfc", "-alias", "server", "-file", str(self.pem), store=self.keystore)
        self._tool("-importcert", "-noprompt", "-alias", "ca", "-file", str(self.pem), store=self.truststore)

    def _tool(self, *words: str, store: Path) -> None:
        program = find_java().program.resolve().with_name("keytool")
        place = ["-storetype", "PKCS12", "-keystore", str(store), "-storepass", STORE_WORD]
        subprocess.run([program, *words, *place], check=True, capture_output=True, timeout=60)


class LockedServers:
    """Both servers on their way; ``wait_ready`` before use, ``close`` after. ``users``: password by name."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.prefix = prefix
        self.certificate = Certificate(folder, "ours")
        self.stranger = Certificate(folder, "stranger")
        self.users = {name: secrets.token_hex(8) for name in ("admin", *(f"{prefix}-{role}" for role in ROLES))}
        text = _BROKER.replace("ADMIN", self.users["admin"]).replace("KEYSTORE", str(self.certificate.keystore))
        text = text.replace("TRUSTSTORE", str(self.certificate.truststore))
        doors = Doors(text, self.users, self.client("admin"))
        self._servers: list[Server] = []
        kit = find_kit()._replace(quick=True)
        try:
            self.cassandra = self._started(
                launch_cassandra(folder / "cassandra", port=free_port(), overrides=self._cassandra(), kit=kit)
            )
            self.kafka = self._started(launch_kafka(folder / "kafka", port=free_port(), doors=doors, kit=kit))
            for server in self._servers:
                server.wait_ready()
        except BaseException:
            self.close()
            raise

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka.port}"

    def client(self, user: str) -> dict[str, str]:
        """How ``user`` gets into Kafka, in librdkafka's words."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.users[user],
            "ssl.ca.location": str(self.certificate.pem),
        }

    def close(self) -> None:
        for server in self._servers:
            server.kill()

    def _started(self, server: Server) -> Server:
        self._servers.append(server)
        return server

    def _cassandra(self) -> dict[str, object]:
        return {
            "authenticator": "PasswordAuthenticator",
            "authorizer": "CassandraAuthorizer",
            "role_manager": "CassandraRoleManager",
            "client_encryption_options": {
                "enabled": True,
                "optional": False,
                "keystore": str(self.certificate.keystore),
                "keystore_password": STORE_WORD,
                "store_type": "PKCS12",
            },
        }
