"""The paper's experiments: run, kept, judged and shown."""
