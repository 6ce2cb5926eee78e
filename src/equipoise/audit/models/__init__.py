"""Models as the audit measures them: ours, and those that users bring."""
