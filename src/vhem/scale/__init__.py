"""Data of any size: parts, summaries of them, and the divide-and-conquer estimator."""

from vhem.scale.partitioned import PartitionedH3M
from vhem.scale.parts import Part, PartError, read_parts, split_sequences
from vhem.scale.progress import PartProgress
from vhem.scale.tasks import PartLabels

__all__ = ["Part", "PartError", "PartLabels", "PartProgress", "PartitionedH3M", "read_parts", "split_sequences"]
