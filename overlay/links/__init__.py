"""One link per pair of agents: frames, credit, greetings, TLS, and the door that strangers stand at."""
