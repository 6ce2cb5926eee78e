"""Ranking metrics of a fitted model on data in blocks."""

from __future__ import annotations

import numpy as np

from equipoise.evaluation.scoring import ModelLists, measure_lists
from equipoise.evaluation.task import Task, group_items
from equipoise.metrics import RANKING_METRICS, Results
from equipoise.metrics.registry import parse_metrics


def user_metrics(seen, test, model, k=20, metrics=RANKING_METRICS):
    task = Task(seen, seen, test, group_items(seen, "interactions"))
    requests = parse_metrics(metrics, k)
    (rows,) = measure_lists(task, ModelLists(model), requests, task.context(np.nan))
    return Results(tuple(rows))
