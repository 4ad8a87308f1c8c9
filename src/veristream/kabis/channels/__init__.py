"""The interfaces of the paper's two channels: the storage parties, and the ordering by validators."""
