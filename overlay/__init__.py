"""Who is near a key, and the trees over them: DHT, reducer trees, roll-up and links (DESIGN sections 2 and 6).

Payloads cross this package as opaque bytes; it never imports `cbt`, `agents`, `elf` or polars.
"""
