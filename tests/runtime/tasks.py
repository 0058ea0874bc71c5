"""What tests ask of the event loop."""

import asyncio


def only_this_task():
    """Say whether no task but the caller's is alive."""
    return asyncio.all_tasks() == {asyncio.current_task()}
