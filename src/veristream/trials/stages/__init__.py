"""How trials are run: the scenario of each, and the brokers that several of them share."""
