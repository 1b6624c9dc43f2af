"""What agents are made of: ready-made parts for nodes. It imports no library for language models."""

from juncture.agents.review import HumanDecision, Reviewed, review_tool_calls

__all__ = ["HumanDecision", "Reviewed", "review_tool_calls"]
