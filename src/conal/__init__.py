"""conal: train classifiers straight from crowd labels."""
