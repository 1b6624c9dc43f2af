"""Pictures of graphs: what is drawn (`drawn`, `tracing`), and one module a format."""
