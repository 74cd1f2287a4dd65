"""``python -m turnstream`` is the command ``turnstream``."""

from .actors.cli import main

if __name__ == "__main__":
    main()
