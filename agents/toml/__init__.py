"""TOML texts, with the places of what is in them."""
