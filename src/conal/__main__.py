"""``python -m conal`` is ``conal``."""

from conal.cli import main

if __name__ == "__main__":
    main()
