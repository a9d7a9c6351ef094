"""Data sets by name, from a folder, the cache or a download, with checksums."""

from fwnet.data.dataset import Dataset
from fwnet.data.features import extract_features
from fwnet.data.load import NAMES, available, load, note_sources
from fwnet.data.sources import DataError
from fwnet.data.splits import Splits, splits

__all__ = [
    "NAMES",
    "DataError",
    "Dataset",
    "Splits",
    "available",
    "extract_features",
    "load",
    "note_sources",
    "splits",
]
