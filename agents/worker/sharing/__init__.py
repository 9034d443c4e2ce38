"""Work that jobs of one source share at an agent: filtering, mapping, buffer trees."""
