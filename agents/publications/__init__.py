"""From publishing a job to its end: masters chosen, versions changed, sources attached, members retired."""
