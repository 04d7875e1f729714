"""`python -m masgrad` is the command line."""

from masgrad.cli import main

if __name__ == "__main__":
    main()
