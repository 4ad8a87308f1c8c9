"""One search that several workers share: each owns a part, and a driver leads them level by level."""
