"""Replicas of a training step that update one model: asynchronous, or synchronous with backup replicas."""

from .asynchronous import AsyncReplicas
from .options import LateGradient, ReplicaStatistics
from .replica import Replica
from .running import ReplicaGroup
from .synchronous import SyncReplicas

__all__ = ["AsyncReplicas", "LateGradient", "Replica", "ReplicaGroup", "ReplicaStatistics", "SyncReplicas"]
