"""Authenticated connections between parties: handshake, frames, servers, and clients that reconnect."""
