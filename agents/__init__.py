"""One agent: sources, worker, reducer and master, its stores, its HTTP API and its metrics (DESIGN section 2).

`runtime` puts the parts together; a line of a log takes this way: `sources` (read, parse) -> `pump` (hand on,
checkpoint) -> `worker` (reduce, seal) -> the overlay (roll up) -> `master` (panes, windows, labels) -> `service` and
`http` (answers).
"""
