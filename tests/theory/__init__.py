"""Theory: hand-worked cases, slow references, and what must hold for every crowd."""
