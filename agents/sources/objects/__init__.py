"""Lines that are objects of JSON: paths to values, programs that find them, and columns made of these."""
