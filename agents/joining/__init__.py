"""Jobs that read the results of other jobs, by name, through the DHT (paper: section 2.1; Table 2, Route)."""
