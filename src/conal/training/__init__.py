"""The training loop and what it needs: batches of observed pairs, selection, checkpoints, progress."""
