"""One agent: sources, worker, reducer and master, its stores, its HTTP API and its metrics (DESIGN section 2).

ARCHITECTURE.md is the map. A line of a log takes this way: `sources` (read, parse) -> `intake` (hand on, checkpoint) ->
`worker` (reduce, seal) -> the overlay (roll up) -> `master` (panes, windows, labels) -> `results` -> `http` (answers).
"""
