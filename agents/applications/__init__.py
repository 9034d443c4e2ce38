"""Applications: Python of operators that runs beside a job, at its master and at its agents (paper: Tables 1 and 2)."""
