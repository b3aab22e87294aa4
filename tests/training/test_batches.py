"""Batches hold the observed pairs of their instances, all of them and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from conal.data.annotations import Annotations
from conal.training import batches as batches_module
from conal.training.batches import CrowdBatches, Instances


def triples(batches: CrowdBatches, rng: np.random.Generator) -> list[tuple[int, int, int]]:
    found = []
    for batch in batches.shuffled(rng):
        tasks = batch.instances[batch.rows]
        found += list(zip(tasks.tolist(), batch.annotators.tolist(), batch.labels.tolist(), strict=True))
        assert batch.x[:, 0].tolist() == batch.instances.tolist()
    return found


@pytest.mark.parametrize("batch_size", [2, 3, 5, 100])
def test_an_epoch_sees_every_annotation_once(crowd: Annotations, batch_size: int) -> None:
    x = np.arange(crowd.n_tasks, dtype=np.float32)[:, None]
    batches = CrowdBatches(Instances(x), crowd, batch_size)
    expected = sorted(zip(crowd.tasks.tolist(), crowd.annotators.tolist(), crowd.labels.tolist(), strict=True))
    found = triples(batches, np.random.default_rng(0))
    assert sorted(found) == expected
    assert triples(batches, np.random.default_rng(1)) != found


def test_batches_are_even_so_that_none_has_a_single_instance() -> None:
    crowd = Annotations.from_matrix(np.zeros((257, 1), dtype=int), classes=[0, 1])
    batches = CrowdBatches(Instances(np.zeros((257, 2))), crowd, 256)
    sizes = [len(batch.x) for batch in batches.shuffled(np.random.default_rng(0))]
    assert sorted(sizes) == [128, 129]


@pytest.mark.parametrize(("n", "batch_size", "expected"), [(3, 2, [3]), (4, 1, [2, 2]), (5, 1, [2, 3]), (1, 8, [1])])
def test_no_batch_has_one_instance_unless_there_is_only_one(n: int, batch_size: int, expected: list[int]) -> None:
    crowd = Annotations.from_matrix(np.zeros((n, 1), dtype=int), classes=[0, 1])
    batches = CrowdBatches(Instances(np.zeros((n, 2))), crowd, batch_size)
    assert sorted(len(batch.x) for batch in batches.shuffled(np.random.default_rng(0))) == expected


@pytest.mark.parametrize("size", [1024, 3])
def test_in_order_includes_unlabelled_instances(crowd: Annotations, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "EVALUATION_BATCH", size)
    batches = CrowdBatches(Instances(np.zeros((crowd.n_tasks, 2))), crowd, 2)
    everyone = torch.cat([batch.instances for batch in batches.in_order()])
    labelled = torch.cat([batch.instances for batch in batches.labelled_in_order()])
    assert everyone.tolist() == list(range(crowd.n_tasks))
    assert labelled.tolist() == np.flatnonzero(crowd.labels_per_task()).tolist()


def test_annotator_codes_are_translated(crowd: Annotations) -> None:
    codes = np.full(crowd.n_annotators, -1)
    codes[2] = 40
    batches = CrowdBatches(Instances(np.zeros((crowd.n_tasks, 2))), crowd, 100, codes)
    found = batches.cut(np.arange(crowd.n_tasks)).annotators.numpy()
    assert found.tolist() == np.where(crowd.annotators == 2, 40, -1).tolist()


class Squares(Dataset[tuple[torch.Tensor, int]]):
    """A dataset in the torch way: items are (features, target)."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, k: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([k, k**2], dtype=torch.float64), -1


def test_a_torch_dataset_is_read_by_item() -> None:
    instances = Instances(Squares(), rows=np.array([4, 2]))
    assert len(instances) == 2
    assert instances.shape == (2,)
    assert instances.take(np.array([1, 0])).tolist() == [[2, 4], [4, 16]]
    assert instances.take(np.array([0])).dtype == torch.float64  # single precision comes after scaling


def test_rows_point_into_the_source_without_copying_it() -> None:
    source = np.arange(12, dtype=np.float16).reshape(6, 2)
    instances = Instances(source, rows=np.array([5, 0, 3]))
    assert instances.source is source
    assert torch.cat(list(instances.chunks())).tolist() == [[10, 11], [0, 1], [6, 7]]
    assert instances.take(np.array([0])).dtype == torch.float32


def test_bytes_stay_bytes_until_the_network_scales_them() -> None:
    assert Instances(np.zeros((2, 3, 4, 4), dtype=np.uint8)).take(np.array([1])).dtype == torch.uint8
