"""What others may see of a run while it goes on: lifecycle listeners, and OpenTelemetry as one of them."""

from juncture.observe.listeners import Event, EventKind, Listener, Listeners, OnListenerError

__all__ = ["Event", "EventKind", "Listener", "Listeners", "OnListenerError"]
