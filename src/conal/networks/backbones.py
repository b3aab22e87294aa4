"""Classifiers from features to class logits: an MLP, a linear layer, VGG-16, or any module that the user supplies."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from conal.errors import InputError
from conal.networks.dropout import Dropout

__all__ = ["MLP", "VGG16", "Backbone", "build_backbone", "fresh_copy", "reorder_outputs"]

Backbone = str | nn.Module | Callable[[tuple[int, ...], int], nn.Module]
"""A name ("mlp", "linear", "vgg16"), a module, or a function of (feature shape, number of classes) that makes one."""


class MLP(nn.Sequential):
    """The paper's classifier for feature vectors: one hidden layer of 128 ReLU units and 50 % dropout.

    Parameters
    ----------
    n_features, n_classes : int
        Width of the (flattened) input and of the output.
    hidden : sequence of int
        Units of the hidden layers.
    dropout : float
        Probability of dropping a hidden unit.
    input_dropout : float
        Probability of setting a feature to zero while training, which is its mean if features are standardised. The
        network then cannot rely on a few features, or on those that identify single instances.
    batch_norm : bool
        Normalise the input and every hidden layer over the batch, without learned scale or shift. The paper does so
        on LabelMe and Music, not on its synthetic data.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (128,),
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        first = nn.Sequential(nn.Flatten(), Dropout(input_dropout)) if input_dropout else nn.Flatten()
        layers: list[nn.Module] = [first]
        if batch_norm:
            layers.append(nn.BatchNorm1d(n_features, affine=False))
        width = n_features
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            if batch_norm:
                layers.append(nn.BatchNorm1d(units, affine=False))
            layers.append(Dropout(dropout))
            width = units
        layers.append(nn.Linear(width, n_classes))
        super().__init__(*layers)


@torch.no_grad()
def reorder_outputs(network: nn.Module, order: Tensor) -> bool:
    """Make output c what output ``order[c]`` was; False for a network that is no sequence with a linear layer last.

    >>> network = MLP(3, 2)
    >>> x = torch.randn(5, 3)
    >>> before = network.eval()(x)
    >>> reorder_outputs(network, torch.tensor([1, 0])), torch.equal(network(x), before[:, [1, 0]])
    (True, True)
    """
    last = network
    while isinstance(last, nn.Sequential):
        last = last[-1]
    if not isinstance(last, nn.Linear) or last.out_features != len(order):
        return False
    for weight in last.parameters():
        weight.copy_(weight[order])
    return True


VGG16_PLAN = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""(convolutions, channels) of each block; a 2 x 2 max-pooling ends each."""


class VGG16(nn.Module):
    """VGG-16 with batch normalisation for small images, as the paper's CIFAR-10 experiments use it.

    Thirteen 3 x 3 convolutions in five blocks, global average pooling, dropout and a linear layer, so that any image
    of at least 32 x 32 pixels fits.

    References
    ----------
    Simonyan and Zisserman (2015). Very deep convolutional networks for large-scale image recognition. ICLR.
    """

    def __init__(self, n_channels: int, n_classes: int, *, dropout: float = 0.5) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        width = n_channels
        for depth, channels in VGG16_PLAN:
            for _ in range(depth):
                blocks += [
                    nn.Conv2d(width, channels, 3, padding=1, bias=False),
                    nn.BatchNorm2d(channels),
                    nn.ReLU(inplace=True),
                ]
                width = channels
            blocks.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), Dropout(dropout), nn.Linear(width, n_classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """(N, channels, height, width) images to (N, C) class logits."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


def build_backbone(
    backbone: Backbone,
    shape: tuple[int, ...],
    n_classes: int,
    *,
    hidden: Sequence[int] = (128,),
    dropout: float = 0.5,
    input_dropout: float = 0.0,
    batch_norm: bool = False,
) -> nn.Module:
    """Make the backbone for instances of this ``shape``; a user's module is copied, never trained in place."""
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone)
    if inspect.isclass(backbone):
        raise InputError(
            f"backbone is the class {backbone.__name__}; pass an instance, or a function of "
            "(feature shape, number of classes) that makes one"
        )
    if callable(backbone):
        return _called(backbone, shape, n_classes)
    if backbone in ("mlp", "linear"):
        layers = hidden if backbone == "mlp" else ()
        width = math.prod(shape)
        return MLP(width, n_classes, hidden=layers, dropout=dropout, input_dropout=input_dropout, batch_norm=batch_norm)
    if backbone == "vgg16":
        if len(shape) != 3 or min(shape[1:]) < 32:
            raise InputError(
                f"backbone 'vgg16' takes images (channels, height, width) of at least 32 x 32, "
                f"these instances have shape {shape}; use backbone='mlp' for feature vectors"
            )
        return VGG16(shape[0], n_classes, dropout=dropout)
    raise InputError(
        f"there is no backbone {backbone!r}; use 'mlp', 'linear', 'vgg16', a torch.nn.Module or a function"
    )


def fresh_copy(backbone: nn.Module) -> nn.Module:
    """A copy of the network: conal's own get new random weights; a user's keeps its weights, which may be pre-trained.

    >>> one = MLP(3, 2)
    >>> bool((fresh_copy(one)[1].weight == one[1].weight).any())
    False
    """
    made = copy.deepcopy(backbone)
    if isinstance(backbone, MLP | VGG16):
        for module in made.modules():
            if isinstance(module, nn.Linear | nn.Conv2d | nn.BatchNorm1d | nn.BatchNorm2d):
                module.reset_parameters()
    return made


def _called(make: Callable[[tuple[int, ...], int], nn.Module], shape: tuple[int, ...], n_classes: int) -> nn.Module:
    try:
        inspect.signature(make).bind(shape, n_classes)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"backbone must accept backbone({shape}, {n_classes}), the feature shape and the number of classes; "
            f"this call failed: {error}"
        ) from error
    made = make(shape, n_classes)
    if not isinstance(made, nn.Module):
        raise InputError(f"backbone({shape}, {n_classes}) returned {type(made).__name__}; expected a torch.nn.Module")
    return made
