"""What users can set, declared once: constructors, checks, messages, options and documentation follow.

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
from conal.parameters.declaration import (
    Doc,
    Option,
    Parameter,
    check_parameters,
    frozen_parameters,
    narrowed,
    parameters,
    parameters_of,
    set_parameters,
)

__all__ = [
    "Constraint",
    "Doc",
    "Option",
    "Parameter",
    "anything",
    "check_parameters",
    "either",
    "flag",
    "frozen_parameters",
    "is_number",
    "is_whole",
    "narrowed",
    "number",
    "one_of",
    "optional",
    "parameters",
    "parameters_of",
    "set_parameters",
    "share",
    "whole",
    "widths",
]
