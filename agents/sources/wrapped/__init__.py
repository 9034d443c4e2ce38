"""Lines that stand in lines of another format."""
