"""Functions that come with a job, signed by its creator: whom to trust, and the process that they run in."""
