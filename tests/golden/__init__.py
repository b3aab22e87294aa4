"""Golden set: what conal computes, writes and says on small inputs. `make golden` writes it again."""
