"""Queues and accumulators as users hold them, and their bridges to asyncio."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "accumulators": "ConditionalAccumulator SparseConditionalAccumulator",
    "async_sources": "from_async",
    "queue_base": "QueueBase",
    "queue_bridges": "Bridge",
    "queues": "FIFOQueue PaddingFIFOQueue PriorityQueue RandomShuffleQueue",
}
