"""How far the numbers of a report can be trusted: busy units and keys, late votes, wide ranges."""
