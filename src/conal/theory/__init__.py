"""The paper's lower bound on the error of inferred labels, and the error of the best rule."""

from conal.theory.bayes import BayesError, bayes_error, posterior
from conal.theory.bound import ErrorLowerBound, error_lower_bound
from conal.theory.noise_model import smooth

__all__ = ["BayesError", "ErrorLowerBound", "bayes_error", "error_lower_bound", "posterior", "smooth"]
