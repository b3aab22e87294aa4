"""Backbones: shapes, options that change something, and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from conal.errors import InputError
from conal.networks import MLP, VGG16, FeatureScaler, build_backbone


def test_the_mlp_is_the_papers() -> None:
    made = MLP(10, 3)
    kinds = [type(layer).__name__ for layer in made]
    assert kinds == ["Flatten", "Linear", "ReLU", "Dropout", "Linear"]
    assert made[1].weight.shape == (128, 10)
    assert made[3].p == 0.5


def test_batch_norm_normalises_input_and_hidden_layers() -> None:
    made = MLP(10, 3, hidden=(8, 6), batch_norm=True)
    widths = [layer.num_features for layer in made if isinstance(layer, nn.BatchNorm1d)]
    assert widths == [10, 8, 6]
    x = 7 + 5 * torch.randn(64, 10)
    normalised = made[1](x)
    torch.testing.assert_close(normalised.mean(0), torch.zeros(10), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalised.var(0, correction=0), torch.ones(10), atol=1e-3, rtol=0)


def test_input_dropout_drops_features_in_training_and_is_none_of_the_weights() -> None:
    torch.manual_seed(0)
    made = MLP(2000, 3, input_dropout=0.3)
    kept = made[0](torch.ones(1, 2000))
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=0.04)
    torch.testing.assert_close(made.eval()[0](torch.ones(1, 2000)), torch.ones(1, 2000))
    assert made.state_dict().keys() == MLP(2000, 3).state_dict().keys()


def test_the_mlp_takes_images_too() -> None:
    assert build_backbone("mlp", (3, 4, 4), 5)(torch.randn(2, 3, 4, 4)).shape == (2, 5)


def test_a_linear_backbone_has_one_layer_whatever_the_hidden_units() -> None:
    made = build_backbone("linear", (2, 3), 4, hidden=(7,), input_dropout=0.2).eval()
    assert {name: tuple(weight.shape) for name, weight in made.named_parameters()} == {
        "1.weight": (4, 6),
        "1.bias": (4,),
    }
    x, weight, bias = torch.randn(5, 2, 3), *made.parameters()
    torch.testing.assert_close(made(x), x.flatten(1) @ weight.T + bias)


def test_vgg16_has_sixteen_weight_layers_less_the_two_hidden_dense_ones() -> None:
    made = VGG16(3, 10)
    convolutions = [m for m in made.modules() if isinstance(m, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [64, 64, 128, 128] + [256] * 3 + [512] * 6
    assert made(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_a_module_is_copied() -> None:
    mine = nn.Linear(4, 2)
    made = build_backbone(mine, (4,), 2)
    assert made is not mine
    torch.testing.assert_close(made.weight, mine.weight)


def test_a_function_gets_shape_and_classes() -> None:
    made = build_backbone(lambda shape, n: nn.Linear(shape[0], n), (4,), 2)
    assert isinstance(made, nn.Linear)
    assert made.weight.shape == (2, 4)


def test_unknown_and_unfit_backbones_are_refused() -> None:
    with pytest.raises(InputError, match="there is no backbone 'resnet'"):
        build_backbone("resnet", (4,), 2)
    with pytest.raises(InputError, match=r"shape \(4,\)"):
        build_backbone("vgg16", (4,), 2)


def test_the_scaler_shifts_and_multiplies_and_takes_bytes() -> None:
    scaler = FeatureScaler(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 0.5]))
    images = torch.tensor([[3, 4]], dtype=torch.uint8)
    torch.testing.assert_close(scaler(images), torch.tensor([[20.0, 1.0]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(5, 3), r"must accept backbone\(\(5,\), 3\), the feature shape and the number of classes"),
        (lambda shape, n_classes: None, r"backbone\(\(5,\), 3\) returned NoneType; expected a torch.nn.Module"),
        (lambda shape, n_classes: nn.Linear, "returned type; expected a torch.nn.Module"),
        (nn.Linear, "pass an instance, or a function of .feature shape, number of classes. that makes one"),
    ],
)
def test_functions_that_make_no_backbone(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_backbone(make, (5,), 3)
