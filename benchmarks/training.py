"""Training: CPU time of an epoch as a multiple of the plain classifier's, `make bench-training`.

10,000 instances of 512 features, 8 classes, 3 labels each, batches of 256, one hidden layer of 128 units with dropout.
The plain classifier is a PyTorch loop over one label per instance. All take turns in fresh processes on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from harness import Row, clock, epoch_times, main, markdown, store, take_turns

N, D, C, LABELS, BATCH = 10_000, 512, 8, 3, 256
SIZES = (59, 5_000, 20_000)
EPOCHS = 8
PEER_EPOCHS = 2
"""They are so far off that a second one settles it."""
PLAIN = "plain classifier, PyTorch"
CONAL, CROWD_LAYER = "conal", "crowd layer of conal"
OURS = {CONAL: "conal", CROWD_LAYER: "dl-cl", "plain classifier of conal": "dl-mv"}
PEERS = ("crowd-kit CoNAL", "every annotator of every instance", "crowd-kit CrowdLayer")
LIMIT = 400.0


def crowd(n_annotators: int, n: int = N) -> tuple[Any, Any, Any, Any, Any]:
    """Features, true classes, and (task, annotator, label) triples; annotators are right seven times in ten."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, D), dtype=np.float32)
    y = rng.integers(C, size=n)
    tasks = np.repeat(np.arange(n), LABELS)
    first = rng.integers(n_annotators, size=n)
    step = rng.integers(1, n_annotators // LABELS, size=n)
    annotators = ((first[:, None] + step[:, None] * np.arange(LABELS)) % n_annotators).reshape(-1)
    labels = np.where(rng.random(n * LABELS) < 0.7, y[tasks], rng.integers(C, size=n * LABELS))
    return x, y, tasks, annotators, labels


def network() -> nn.Sequential:
    """The paper's classifier, as anybody would write it."""
    return nn.Sequential(nn.Linear(D, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, C))


def timed(epoch: Callable[[], None], epochs: int = EPOCHS) -> Row:
    """The fastest of several epochs, so that what the machine does beside it counts little."""
    times = []
    with clock() as row:
        for _ in range(epochs):
            began = time.process_time()
            epoch()
            times.append(time.process_time() - began)
    return row | {"cpu": min(times)}


def plain() -> Row:
    """One label per instance, cross-entropy, fused Adam."""
    x, y, *_ = crowd(59)
    X, Y, model = torch.from_numpy(x), torch.from_numpy(y), network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def epoch() -> None:
        for index in torch.randperm(N).split(BATCH):
            loss = cross_entropy(model(X[index]), Y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return timed(epoch)


def conal(n_annotators: int, method: str = "conal", n: int = N) -> Row:
    """The whole of training as users run it: the estimator's own loop."""
    import conal

    x, _, tasks, annotators, labels = crowd(n_annotators, n)
    times = epoch_times()
    warnings.simplefilter("ignore")
    crowd_labels = conal.Annotations.from_triples(tasks, annotators, labels)
    with clock() as row:
        conal.make(method, epochs=EPOCHS, selection="last", batch_size=BATCH, verbose=False).fit(x, crowd_labels)
    return row | {"cpu": min(times)}


def crowdkit(kind: str, n_annotators: int) -> Row:
    """crowd-kit's layers behind the same network, by pairs, with Adam."""
    from crowdkit.learning import CoNAL, CrowdLayer

    x, _, _, annotators, labels = crowd(n_annotators)
    X, A, Y = torch.from_numpy(x), torch.from_numpy(annotators), torch.from_numpy(labels)
    model = network()
    layer: Any = CoNAL(C, n_annotators) if kind == "conal" else CrowdLayer(C, n_annotators, conn_type="mw")
    pairs = torch.arange(N * LABELS).view(N, LABELS)

    def loss_of(index: Tensor) -> Tensor:
        at = pairs[index].reshape(-1)
        features = X[index]
        rows = torch.arange(len(index)).repeat_interleave(LABELS)
        logits = model(features)[rows]
        made = layer(features[rows], logits, A[at]) if kind == "conal" else layer(logits, A[at])
        return cross_entropy(made, Y[at])

    loss_of(torch.arange(2))  # layers that take their size from the first batch
    optimizer = torch.optim.Adam([*model.parameters(), *layer.parameters()], lr=0.01)

    def epoch() -> None:
        for index in torch.randperm(N).split(BATCH):
            loss = loss_of(index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return timed(epoch, PEER_EPOCHS)


def dense(n_annotators: int) -> Row:
    """CoNAL's equations for every annotator on every instance, missing labels masked: how published code computes."""
    x, _, tasks, annotators, labels = crowd(n_annotators)
    X, model = torch.from_numpy(x), network()
    given = torch.full((N, n_annotators), -1, dtype=torch.int8)
    given[torch.from_numpy(tasks), torch.from_numpy(annotators)] = torch.from_numpy(labels).to(torch.int8)
    start = 2 * torch.eye(C)
    common, own = nn.Parameter(start.clone()), nn.Parameter(start.repeat(n_annotators, 1, 1))
    instance, person = nn.Linear(D, 20), nn.Parameter(torch.randn(n_annotators, 20))
    optimizer = torch.optim.Adam([*model.parameters(), common, own, *instance.parameters(), person], lr=0.01)
    unit = partial(nn.functional.normalize, dim=-1)

    def epoch() -> None:
        for index in torch.randperm(N).split(BATCH):
            features = X[index]
            f = model(features).softmax(-1)
            omega = (unit(instance(features)) @ unit(person).T).sigmoid().unsqueeze(-1)
            made = omega * (f @ common).unsqueeze(1) + (1 - omega) * torch.einsum("nc,rcl->nrl", f, own)
            target = given[index].long()
            loss = cross_entropy(made.flatten(0, 1), target.flatten(), ignore_index=-1)
            loss = loss - 1e-5 * torch.linalg.vector_norm(common - own, dim=(-2, -1)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return timed(epoch, PEER_EPOCHS)


def jobs() -> dict[str, Callable[[], Row]]:
    """All that can be measured."""
    made: dict[str, Callable[[], Row]] = {PLAIN: plain}
    for size in SIZES:
        made |= {f"{name} {size}": partial(conal, size, method) for name, method in OURS.items()}
        made[f"crowd-kit CrowdLayer {size}"] = partial(crowdkit, "layer", size)
        made[f"crowd-kit CoNAL {size}"] = partial(crowdkit, "conal", size)
        made[f"every annotator of every instance {size}"] = partial(dense, size)
    return made


def run(arguments: argparse.Namespace) -> None:
    """Ours and the plain classifier in turn, several times; peers, which are far off, once."""
    sizes = SIZES[:1] if arguments.quick else SIZES
    ours = [PLAIN, *(f"{name} {size}" for size in sizes for name in OURS)]
    best = take_turns(__file__, ours, 1 if arguments.quick else arguments.repeats)
    for size in sizes:
        best |= take_turns(__file__, [f"{name} {size}" for name in PEERS], 1, LIMIT)
    print(table(best, sizes))
    if not arguments.quick:
        store("training", {"sizes": list(sizes), "rows": best})


def table(best: dict[str, Row], sizes: tuple[int, ...]) -> str:
    """Multiples of the plain classifier's CPU time, and peak memory."""
    floor = best[PLAIN]["cpu"]
    header = ["CPU time of an epoch / plain classifier's", *(f"{size:,} annotators" for size in sizes)]
    rows = []
    for name in (CONAL, *PEERS[:2], CROWD_LAYER, PEERS[2], "plain classifier of conal"):
        found = [best.get(f"{name} {size}") for size in sizes]
        cells = ["—" if row is None else f"{row['cpu'] / floor:.2f} ({row['peak_mb']:,.0f} MB)" for row in found]
        rows.append([name, *cells])
    note = f"{PLAIN}: {1e3 * floor:.0f} ms of CPU time per epoch, {best[PLAIN]['peak_mb']:,.0f} MB."
    return f"{note} In brackets: peak memory.\n\n{markdown(header, rows)}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(jobs(), run, __doc__)
