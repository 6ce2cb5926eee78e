"""The paper's claims, figures and theorems as experiments, each with a verdict."""
