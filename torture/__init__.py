"""The torture campaign: signals, broken files, odd names and forged folders, by the thousand.

``make torture`` runs it. ``SECURITY.md`` says what it must show.
"""
