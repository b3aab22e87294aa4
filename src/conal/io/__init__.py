"""Files in, files out."""

from conal.io.annotation_file import AnnotationFile
from conal.io.features import FeatureTable, TextTable, features_from, read_features, read_texts
from conal.io.importing import import_file, read_annotations
from conal.io.tables import read_table, write_annotations, write_table
from conal.io.true_labels import GoldLabels, gold_from_table, read_gold
from conal.parameters.reading import ReadOptions

__all__ = [
    "AnnotationFile",
    "FeatureTable",
    "GoldLabels",
    "ReadOptions",
    "TextTable",
    "features_from",
    "gold_from_table",
    "import_file",
    "read_annotations",
    "read_features",
    "read_gold",
    "read_table",
    "read_texts",
    "write_annotations",
    "write_table",
]
