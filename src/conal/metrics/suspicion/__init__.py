"""Whose labels do not speak for themselves: spammers, rings, copyists and sleepers, with false alarms under control"""

from conal.metrics.suspicion.defence import Defence, defended, without
from conal.metrics.suspicion.suspects import Suspects, find_suspects

__all__ = ["Defence", "Suspects", "defended", "find_suspects", "without"]
