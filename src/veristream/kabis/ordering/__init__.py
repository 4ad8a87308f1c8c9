"""The validation channel: validators that agree on an order."""
