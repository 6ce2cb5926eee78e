"""The documentation is run, linked and complete."""
