"""RabbitMQ on this machine: nodes that run from Debian's packages, which are unpacked and not installed."""
