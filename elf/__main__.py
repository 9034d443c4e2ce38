"""`python -m elf` is the `elf` command."""

from elf.cli.start import main

if __name__ == "__main__":
    main()
