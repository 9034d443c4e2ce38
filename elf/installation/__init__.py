"""An agent put in place on a server: the logs that are there, its settings, secret and unit; and taken away again."""
