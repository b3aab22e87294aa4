"""Texts to features: TF-IDF and a truncated SVD, or an encoder of the user's own; no torch."""

from conal.text.encoders import EncodedTexts
from conal.text.features import TextFeatures, check_texts, is_missing

__all__ = ["EncodedTexts", "TextFeatures", "check_texts", "is_missing"]
