"""Python that jobs name or bring along: installed applications, and functions signed by a job's creator."""
