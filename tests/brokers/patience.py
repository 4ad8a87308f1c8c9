"""How long tests wait for a real Kafka, which a busy machine may stop for seconds."""

from __future__ import annotations

from veristream.kabis.log.kafka.log import KafkaLogOptions

PATIENCE_S = 120.0
PATIENT = KafkaLogOptions(read_patience_s=PATIENCE_S, replay_patience_s=PATIENCE_S)
"""A party does not wait long for a Kafka that is slow; what it would say then is nothing of these tests."""
