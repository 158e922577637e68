"""`python -m strowger_gateway.gateway.cli`: the same as the `strowger` command."""

from strowger_gateway.gateway.cli import main

if __name__ == "__main__":
    main()
