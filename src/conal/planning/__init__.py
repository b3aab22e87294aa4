"""Plans: which tasks to give to an expert next, and whom of the crowd to ask what."""
