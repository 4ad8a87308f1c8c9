"""Properties of the messages of logs and queues alike."""
