"""The networks of the experiments."""

from __future__ import annotations

import torch
from torch import nn


def rings_net() -> nn.Sequential:
    """2 – 4 – 2 with tanh, the kernel of the concentric circles."""
    first, second = nn.Linear(2, 4), nn.Linear(4, 2)
    for layer in (first, second):  # torch's own initial weights are small for tanh
        nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh())


def image_kernel(shape: tuple[int, ...], channels: int, features: int = 32) -> nn.Sequential:
    """Three convolutions with pooling, then 32 features, all with batch norm and ReLU.

    Arguments:
        shape: (channels, rows, columns) of an image, at least 8 × 8.
        channels: of the first convolution; the others have twice as many.
        features: of the last layer.
    """
    layers: list[nn.Module] = []
    width = shape[0]
    for out in (channels, 2 * channels, 2 * channels):
        layers += [
            nn.Conv2d(width, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.MaxPool2d(2),  # before ReLU, which commutes with it, on a quarter of the numbers
            nn.ReLU(),
        ]
        width = out
    inner = width * (shape[1] // 8) * (shape[2] // 8)
    layers += [nn.Flatten(), nn.Linear(inner, features, bias=False), nn.BatchNorm1d(features)]
    return _channels_last(nn.Sequential(*layers, nn.ReLU()))


def image_features(
    shape: tuple[int, ...], channels: int, width: int, depth: int = 1
) -> nn.Sequential:
    """Two convolutions with pooling, then `depth` fully connected layers of `width` units.

    Arguments:
        shape: (channels, rows, columns) of an image.
        channels: of the first convolution; the second has twice as many.
        width, depth: of the fully connected part; the paper's is 16 and 1.
    """
    layers: list[nn.Module] = [
        nn.Conv2d(shape[0], channels, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
    ]
    inner = 2 * channels * (shape[1] // 4) * (shape[2] // 4)
    for _ in range(depth):
        layers += [nn.Linear(inner, width), nn.ReLU()]
        inner = width
    return _channels_last(nn.Sequential(*layers))


def _channels_last(net: nn.Sequential) -> nn.Sequential:
    """The same network with the layout in memory that convolutions are twice as fast in."""
    for weight in net.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return net
