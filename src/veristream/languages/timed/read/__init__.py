"""Parses UPPAAL's files: XML, tokens, trees and queries. Names stay unresolved."""
