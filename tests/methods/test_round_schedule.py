"""When E-steps are due."""

from __future__ import annotations

from conal.methods.cross_conal import due_epochs


def test_e_steps_are_spread_over_the_epochs() -> None:
    assert sorted(due_epochs(100, 0.2, 17)) == list(range(20, 101, 5))
    assert sorted(due_epochs(10, 0.2, 17)) == list(range(2, 11))
    assert due_epochs(1, 0.2, 17) == {1}
