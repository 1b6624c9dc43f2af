"""What tests of graphs and of savers use. Shipped to users; nothing in Juncture imports it."""

from juncture.testing.clock import FakeClock

__all__ = ["FakeClock"]
