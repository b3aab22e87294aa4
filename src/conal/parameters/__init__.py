"""What users can set, declared once, as data: signatures, checks, messages, options and documentation follow.

Nothing heavy is imported here, so that the command line can show its help at once.
"""

from conal.parameters.constraints import (
    Constraint,
    anything,
    either,
    flag,
    is_number,
    is_whole,
    number,
    one_of,
    optional,
    share,
    whole,
    widths,
)
from conal.parameters.declaration import Parameter, Parameterised, check_parameters, parameter

__all__ = [
    "Constraint",
    "Parameter",
    "Parameterised",
    "anything",
    "check_parameters",
    "either",
    "flag",
    "is_number",
    "is_whole",
    "number",
    "one_of",
    "optional",
    "parameter",
    "share",
    "whole",
    "widths",
]
