"""PCAs that are fair to groups of items or of users, or that hide the groups."""
