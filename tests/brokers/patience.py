"""How long tests wait for a real Kafka, which a busy machine may pause for seconds."""

from __future__ import annotations

from veristream.kabis.log.kafka.log import KafkaLogOptions

PATIENCE_S = 120.0
PATIENT = KafkaLogOptions(read_patience_s=PATIENCE_S, replay_patience_s=PATIENCE_S)
"""Long enough that a party does not give up on a slow Kafka, which these tests are not about."""
