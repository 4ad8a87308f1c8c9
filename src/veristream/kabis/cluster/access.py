"""Opens producers, consumers and admins of a cluster with the keys in its folder.

access = Access(ClusterFolder(Path("kabis-data")))
with access.producer() as producer, access.consumer() as consumer: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.interfaces import Connect
from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.client.connect import open_channels
from veristream.kabis.client.consumer.consumer import KabisConsumer
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole
from veristream.kabis.protocol.transactions import Author
from veristream.kabis.wire.handshake import Identity, Role


@dataclass(frozen=True, slots=True)
class Access:
    """The clients whose keys are in a cluster's folder."""

    folder: ClusterFolder

    def require_up(self) -> Access:
        """Returns itself. Raises EnvironmentFailure if the folder's cluster runs no validator.

        If the validators are CometBFT's, a storage party must run. A client's folder has no parties, so
        only a connection can tell.
        """
        if not self.folder.has_parties():
            return self
        running = Cluster(self.folder).find()
        needed = MemberRole.STORAGE if is_cometbft(self.genesis) else MemberRole.VALIDATOR
        seats = self.folder.members().seats()
        if not any(seat.party.name in running for seat in seats if seat.role is needed):
            raise EnvironmentFailure(
                f"the cluster in {self.folder.path} is down",
                f"veristream kabis up --detach --data {self.folder.path} starts it",
            )
        return self

    @property
    def genesis(self) -> Genesis:
        """The chain's genesis."""
        return self.folder.genesis()

    def author(self, name: str) -> Author:
        """Returns a client or the admin as an author, with its latest key."""
        return Author(self.genesis.chain_id, name, self.folder.key_epoch(name), self.folder.key(name))

    def identity(self, name: str, role: Role) -> Identity:
        """Returns the identity of a client or the admin on the wire."""
        return Identity(self.genesis.chain_id, role, name, self.folder.key(name), self.folder.tls())

    def connect(self, name: str, role: Role, timeout_s: float = 5.0) -> Connect:
        """Returns a function that opens both channels under a name."""
        identity, handovers = self.identity(name, role), self.handovers(name)
        return partial(open_channels, self.genesis, identity, timeout_s, self.kafka(), handovers)

    def handovers(self, name: str) -> tuple[Handover, ...]:
        """Returns the changes of the members that the folder or the checkpoint knows."""
        known, checkpoint = self.folder.members().handovers, self._checkpoint(name)
        if not checkpoint.is_file():
            return known
        kept = Checkpoint(checkpoint, self.genesis, verify_signature).succession.handovers
        return max(known, kept, key=len)

    def kafka(self) -> dict[str, KafkaSettings]:
        """Returns the Kafka cluster of each storage party whose log is in Kafka."""
        names = [
            seat.party.name for seat in self.folder.members().seats() if seat.role is MemberRole.STORAGE
        ]
        found = {name: self.folder.kafka(name) for name in names}
        return {name: settings for name, settings in found.items() if settings is not None}

    def producer(
        self,
        name: str = "producer",
        options: ProducerOptions = ProducerOptions(),  # noqa: B008 (frozen)
        *,
        journal: bool = True,
    ) -> KabisProducer:
        """Returns a producer, to be opened by `with`; its journal is in the cluster's folder."""
        author = self.author(name)
        folder = self.folder.path / "journals" / name
        if journal:
            folder.mkdir(parents=True, exist_ok=True)
        connect = self.connect(name, Role.PRODUCER)
        producer = KabisProducer(self.genesis, author, connect, options, folder if journal else None)
        producer.keep_checkpoint(self._checkpoint(name))
        return producer

    def consumer(
        self,
        name: str = "consumer",
        options: ConsumerOptions = ConsumerOptions(),  # noqa: B008 (frozen)
    ) -> KabisConsumer:
        """Returns a consumer, to be opened by `with`."""
        connect = self.connect(name, Role.CONSUMER)
        consumer = KabisConsumer(self.genesis, self.author(name), connect, options)
        consumer.keep_checkpoint(self._checkpoint(name))
        return consumer

    def _checkpoint(self, name: str) -> Path:
        return self.folder.path / "checkpoints" / name

    def admin(self, timeout_s: float = 5.0) -> Connect:
        """Returns a function that opens both channels for the admin."""
        return self.connect(ADMIN, Role.ADMIN, timeout_s)
