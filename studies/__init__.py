"""The paper's tables and figures and this library's own comparisons: run from a checkout, not part of the wheel.

``python -m studies`` lists them. A study is a module with four names: ``PARTS``, the tables that it fills;
``runs(options)``, its settings as plain data; ``run(setting)``, the figures of one of them; and ``summarise(tables)``,
what they say. Where further settings depend on what the first have found, ``more(tables, options)`` has them. Results
belong to a release: those of 0.2.0 are in ``studies/results/0.2.0``.
"""

STUDIES = (
    *("table-1", "table-2", "table-3", "figure-1", "sweeps", "recovery", "omega", "curves", "bound", "authors-loop"),
    *("gold-free", "small", "aggregators", "little-gold", "juries", "plans", "attacks"),
)
"""The names of all studies: ``table-1`` is the module ``studies.table_1``. The paper's come first."""
