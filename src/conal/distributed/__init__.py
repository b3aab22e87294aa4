"""Work shared by several processes: sums of counts for aggregators, gradients for networks."""

__all__: list[str] = []
