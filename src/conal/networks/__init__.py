"""Torch modules, tensors in and tensors out: backbones, noise adaptation layers, the auxiliary network."""

from conal.networks.auxiliary import AuxiliaryNetwork
from conal.networks.backbones import MLP, VGG16, build_backbone
from conal.networks.noise_adaptation import NoiseAdaptation
from conal.networks.scaler import FeatureScaler

__all__ = ["MLP", "VGG16", "AuxiliaryNetwork", "FeatureScaler", "NoiseAdaptation", "build_backbone"]
