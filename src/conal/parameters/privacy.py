"""What a model folder says about the annotators."""

from __future__ import annotations

from conal.errors import InputError
from conal.parameters.constraints import anything, flag, whole
from conal.parameters.declaration import Option, Parameterised, parameter

__all__ = ["PrivacyOptions"]


class PrivacyOptions(Parameterised):
    """Whether annotators have their own names in the output, and how much it tells about each.

    Examples
    --------
    >>> PrivacyOptions(anonymise=True).hide_below
    10
    """

    anonymise: bool = parameter(
        default=False,
        must_be=flag(),
        help="Replace the annotators' names by pseudonyms in all output, round figures about annotators, and hide "
        "those with few labels.",
        option=Option(),
    )
    hide_below: int = parameter(
        default=10,
        must_be=whole(1),
        help="Annotators with fewer labels are in no table and not in the model, where they count as unknown ones.",
        option=Option(help="With --anonymise: leave annotators with fewer labels out of all tables and of the model."),
    )
    pseudonym_key: str | None = parameter(
        default=None,
        must_be=anything(),
        help="File with a secret key; with the same key, annotators have the same pseudonyms in every model. It is "
        "created if it does not exist. By default the key is random and thrown away.",
        option=Option(
            help="With --anonymise: file with a secret key, created if it does not exist. The same key gives the same "
            "pseudonyms (default: a random key that is thrown away)."
        ),
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        for name in ("hide_below", "pseudonym_key"):
            found = self.declared[name]
            if not self.anonymise and getattr(self, name) != found.default:
                raise InputError(f"{found.flag} needs --anonymise; add it, or remove {found.flag}")
