"""Small tools for all other packages; they import none of them."""

__all__: list[str] = []
