"""Audits for people and programs: text, JSON, pages, charts of witnesses."""
