"""Texts to features: TF-IDF and a truncated SVD; no torch."""

from conal.text.features import TextFeatures, check_texts, is_missing

__all__ = ["TextFeatures", "check_texts", "is_missing"]
