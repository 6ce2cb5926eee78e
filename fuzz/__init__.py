"""Fuzzing: every way into the package is tried with input that nobody would write."""
