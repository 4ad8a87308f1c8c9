"""Properties of the subscriptions of queues."""
