"""Bridges: tasks that move elements between a session's queues and asyncio."""
