"""Topics that are not validated, straight to and from Kafka."""
