"""Real brokers on this machine, for tests and demonstrations.

Nothing here is an imitation. The programs are the published ones, pinned by version and checksum,
fetched by the ordinary client of where they are published, and run on loopback without containers.
"""
