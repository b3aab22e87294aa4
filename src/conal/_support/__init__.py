"""Small tools that every other room may use, and that know none of them."""

__all__: list[str] = []
