"""`python -m gateway.cli`: the same as the `strowger` command."""

from gateway.cli import main

if __name__ == "__main__":
    main()
