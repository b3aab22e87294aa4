"""Classifiers from features to class logits: an MLP, a linear layer, VGG-16, or a module of the user's."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from conal.errors import InputError
from conal.networks.draws import current_generator, drawing_from


class Dropout(nn.Dropout):
    """:class:`torch.nn.Dropout` by 16 random bits per unit, from the generator of this training.

    Parameters
    ----------
    p : float
        Probability of dropping a unit, in steps of 1/65,536.

    Examples
    --------
    >>> sorted(Dropout(0.5)(torch.ones(1000)).unique().tolist())
    [0.0, 2.0]
    """

    # Torch's takes no generator, without which fits in several threads would disturb each other; and it takes five
    # times as long on a CPU (`make bench-components`).

    def forward(self, x: Tensor) -> Tensor:
        """Zeros and scaled values in training, x itself otherwise."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=current_generator())
        chance = bits.view(torch.int16)[: x.numel()].view(x.shape)  # four numbers in each
        kept = torch.ge(chance, int(self.p * 2**16) - 2**15, out=torch.empty_like(x, requires_grad=False))
        return x * kept.mul_(1 / (1 - self.p))


# Classifiers from features to class logits: an MLP, a linear layer, VGG-16, or any module that the user supplies.

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

    def input(self, x: Tensor) -> Tensor:
        """The flattened features, some of them dropped while training; several networks can share them."""
        dropped: Tensor = self[0](x)
        return dropped

    def after_input(self, x: Tensor) -> Tensor:
        """(N, C) class logits from what :meth:`input` gives."""
        for layer in islice(self, 1, None):
            x = layer(x)
        return x


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


# Backbones without their head, for methods with several heads.


def split_head(backbone: nn.Module, shape: tuple[int, ...], n_classes: int) -> tuple[nn.Module, int]:
    """The trunk below the layer of class logits, and its width.

    A linear layer whose very output is the backbone's output is its head, and is replaced in place by the identity.
    Any other backbone stays whole, and what it gives, of whatever width, are the trunk's features.
    """
    outputs: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda _module, _x, out, name=name: outputs.__setitem__(name, out))
        for name, module in backbone.named_modules()
        if isinstance(module, nn.Linear)
    ]
    result = _probe(backbone, shape)
    for hook in hooks:
        hook.remove()
    if not isinstance(result, Tensor):
        return backbone, n_classes  # it will fail on real instances too, with a message that says so
    heads = [name for name, out in outputs.items() if out is result]
    if not heads:
        return backbone, int(result.shape[-1])
    head = backbone.get_submodule(heads[0])
    width = int(head.in_features)  # type: ignore[arg-type]
    if head is backbone:
        return nn.Identity(), width
    parent, _, attribute = heads[0].rpartition(".")
    setattr(backbone.get_submodule(parent), attribute, nn.Identity())
    return backbone, width


@torch.no_grad()
def _probe(backbone: nn.Module, shape: tuple[int, ...]) -> object:
    """The backbone's output for two instances of zeros; None if that fails."""
    was_training = backbone.training
    try:
        return backbone.eval()(torch.zeros(2, *shape))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    finally:
        backbone.train(was_training)


class AnnotatorHeads(nn.Module):
    """One linear layer from the trunk's features to class logits for every annotator.

    Parameters
    ----------
    width, n_classes, n_annotators : int
    """

    def __init__(self, width: int, n_classes: int, n_annotators: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(max(width, 1))  # as torch starts a linear layer
        self.weight = nn.Parameter(torch.empty(n_annotators, width, n_classes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_annotators, n_classes).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        """(N, R, C) logits of all heads from (N, width) features."""
        R, width, C = self.weight.shape
        every = self.weight.transpose(0, 1).reshape(width, R * C)
        logits: Tensor = (features @ every).unflatten(-1, (R, C))
        return logits + self.bias

    @torch.no_grad()
    def chosen(self, annotators: Tensor) -> AnnotatorHeads:
        """The heads of these annotators, as a module of their own."""
        _, width, C = self.weight.shape
        with drawing_from(torch.Generator(), torch_too=True):  # initial weights are drawn and thrown away
            heads = AnnotatorHeads(width, C, len(annotators))
        heads.weight.copy_(self.weight[annotators])
        heads.bias.copy_(self.bias[annotators])
        return heads

    def of_pairs(self, features: Tensor, annotators: Tensor) -> Tensor:
        """(P, C) logits of head ``annotators[p]`` for feature row p."""
        logits: Tensor = (features.unsqueeze(1) @ self.weight[annotators]).squeeze(1) + self.bias[annotators]
        return logits


class WeightedHeads(nn.Module):
    """A trunk, and the weighted mean of its heads' probabilities.

    Parameters
    ----------
    trunk : nn.Module
        From scaled features to (N, width) features.
    heads : AnnotatorHeads
    log_weights : (R,) tensor
        Logarithms of the heads' weights.
    """

    log_weights: Tensor

    def __init__(self, trunk: nn.Module, heads: AnnotatorHeads, log_weights: Tensor) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = heads
        self.register_buffer("log_weights", log_weights)

    def forward(self, x: Tensor) -> Tensor:
        """(N, ...) scaled features to (N, C) log-probabilities."""
        return mean_of_heads(self.heads(self.trunk(x)), self.log_weights)


def mean_of_heads(logits: Tensor, log_weights: Tensor) -> Tensor:
    """(N, C) log of the weighted mean of the probabilities of (N, R, C) logits."""
    return torch.logsumexp(logits.log_softmax(-1) + log_weights[:, None], dim=1)
