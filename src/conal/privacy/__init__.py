"""Differentially private releases: what a crowd confuses, with noise that hides each person's whole contribution."""

from conal.privacy.release import PrivateRelease, private_release

__all__ = ["PrivateRelease", "private_release"]
