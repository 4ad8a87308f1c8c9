"""Authenticated connections between parties: handshake, frames, servers, clients that call again."""
