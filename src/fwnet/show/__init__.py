"""Progress and pictures of traces and results."""
