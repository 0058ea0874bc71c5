"""``python -m tagflow`` is ``tagflow``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
