"""From what a module declares to a Network of guarded actions."""
