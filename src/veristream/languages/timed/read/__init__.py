"""From UPPAAL's files to syntax: XML, tokens, trees, queries; names as written."""
