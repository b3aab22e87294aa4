"""Fuzzing: hostile files, odd names, tampered folders and killed commands. ``make fuzz`` runs it for longer."""
