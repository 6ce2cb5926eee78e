"""PCAs: Item-Weighted PCA, the PCAs that it is compared with, updates, the paper's program."""
