"""Torch modules, tensors in and tensors out: backbones, noise adaptation layers, the auxiliary network."""

from conal.networks.backbones import MLP, VGG16, build_backbone
from conal.networks.deployed import FeatureScaler
from conal.networks.noise_layers import AuxiliaryNetwork, NoiseAdaptation

__all__ = ["MLP", "VGG16", "AuxiliaryNetwork", "FeatureScaler", "NoiseAdaptation", "build_backbone"]
