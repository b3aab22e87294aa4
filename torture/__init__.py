"""The torture campaign: faults, signals, broken files, odd names, forged folders and rival writers, by the thousand.

``make torture`` runs it. ``SECURITY.md`` says what it must show.
"""
