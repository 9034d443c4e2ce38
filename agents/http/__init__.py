"""The versioned HTTP API, the one door for command line, library and dashboards (DESIGN section 8)."""
