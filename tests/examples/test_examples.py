"""The examples run as a reader would run them, and say what their index says they show."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise import load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NOTEBOOK, TUTORIAL = FOLDER / "first_look.ipynb", FOLDER / "tutorial.ipynb"
INDEXES = [FOLDER / "README.md", ROOT / "docs" / "examples.md"]


def run(name: str, folder: Path) -> str:
    """What an example prints, started in a folder of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(FOLDER / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_rows(text: str) -> list[list[str]]:
    """Cells of the lines of Markdown tables, without the rules under their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not set("".join(row)) <= set("-:")]


def needs(*modules: str) -> None:
    for module in modules:
        pytest.importorskip(module, reason=f"an example was NOT run: {module} is not installed")


@pytest.mark.slow
def test_an_implicit_model_is_audited_with_ours(tmp_path):
    needs("implicit")
    said = run("audit_implicit_model.py", tmp_path)
    numbers = {row[0]: row[1:] for row in table_rows(said)}
    assert {"PCA", "Normalized PCA", "Item-Weighted PCA", "implicit ALS"} <= set(numbers)
    assert 0 < float(numbers["PCA"][0]) <= 1
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "implicit ALS" in page


@pytest.mark.slow
def test_indexes_are_measured_against_exact_search(tmp_path):
    needs("usearch", "faiss")
    said = run("serve_with_ann_index.py", tmp_path)
    recall = {row[0]: float(row[1]) for row in table_rows(said)[1:5]}
    assert recall["faiss Flat (exact)"] == 1.0
    assert recall["usearch"] > 0.9
    assert recall["faiss HNSW32"] > 0.8
    first = table_rows(said)[6]
    assert first[:2] == first[2:]  # the best item, with its score, from the index and exactly


def test_the_grid_search_ends_in_a_best_setting(tmp_path):
    said = run("sklearn_pipeline_grid_search.py", tmp_path)
    rows = table_rows(said)
    assert len(rows) == 1 + 2 * 3 * 3
    recalls = [float(row[3]) for row in rows[1:]]
    assert recalls == sorted(recalls, reverse=True)
    best = ast.literal_eval(said.splitlines()[-1].removeprefix("best: "))
    assert best["model__gamma"] < 0  # weights help on these synthetic data


def test_lists_go_from_sql_to_sql(tmp_path):
    said = run("sql_to_recommendations.py", tmp_path)
    with sqlite3.connect(tmp_path / "plays.sqlite") as database:
        kept = database.execute("SELECT listener, rank, artist FROM recommended").fetchall()
    assert len(kept) == 9
    assert [[row[0], int(row[1]), row[2]] for row in table_rows(said)[1:]] == [*map(list, kept)]
    if os.environ.get("EQUIPOISE_POSTGRES_URL"):
        needs("sqlalchemy", "psycopg")
        assert said.endswith("The same data come from PostgreSQL: True\n")


@pytest.mark.slow
def test_mlflow_serves_the_lists_of_the_model(tmp_path):
    needs("mlflow", "pandas")
    rows = table_rows(run("mlflow_pyfunc.py", tmp_path))[1:]
    assert [row[2] for row in rows] == ["False", "True"]
    model = load(tmp_path / "artists.eqp")
    expected = model.recommend(["artist-0003", "artist-0010"], k=4).ids
    assert rows[0][1].split(", ") == expected.tolist()
    assert (tmp_path / "artists-mlflow" / "mlflow_pyfunc.py").is_file()
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.mark.slow
def test_the_monthly_loop_publishes_the_model_of_the_last_month(tmp_path):
    rows = table_rows(run("monthly_loop.py", tmp_path))[1:]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert all(row[-1] == "True" for row in rows)
    assert load(tmp_path / "published.eqp").n_features_in_ == 80
    assert (tmp_path / "changes-03.txt").read_text()
    assert not (tmp_path / "candidate.eqp").exists()


@pytest.mark.slow
@pytest.mark.distributed
def test_two_workers_find_what_one_process_finds(tmp_path):
    needs("distributed", "dask.dataframe")
    said = run("dask_cluster.py", tmp_path)
    values = {row[0]: row[-1] for row in table_rows(said)}
    alone, together = values["objective, one process"], values["objective, cluster"]
    assert float(together) == pytest.approx(float(alone), rel=1e-8)
    assert float(values["widest angle (rad)"]) < 1e-5
    assert "16,000 recommendations written" in said


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    needs("nbclient", "nbformat", "nbconvert", "ipykernel")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(
        notebook,
        timeout=1800,  # only a hang takes so long
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(notebook)
    (tmp_path / "first_look.html").write_text(page, encoding="utf-8")
    for title in ("Interactions(", "Results(", "Tuning(", "Findings(", "Ranking of 1 user"):
        assert f"<b>{title}" in page
    assert (tmp_path / "report.html").stat().st_size > 100_000
    shown = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    assert "application/vnd.plotly" in shown
    assert "in all, of which" in shown
    assert (tmp_path / "artists.eqp").is_file()


def test_the_tutorial_is_the_page():
    spec = importlib.util.spec_from_file_location("writer", ROOT / "docs" / "make_notebook.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = TUTORIAL.read_text(encoding="utf-8")
    assert written == writer.notebook(), "run: python docs/make_notebook.py"


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.usefixtures("data_dir")
def test_the_tutorial_runs_from_top_to_bottom(tmp_path):
    needs("nbclient", "nbformat", "ipykernel")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=3600, kernel_name="python3", resources=resources).execute()
    shown = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    assert "better lists" in shown
    assert (tmp_path / "changes.html").is_file()


@pytest.mark.parametrize("path", [NOTEBOOK, TUTORIAL], ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("index", INDEXES, ids=lambda page: page.parent.name)
def test_the_index_lists_every_example_in_its_own_words(index):
    listed = dict(re.findall(r"^\| `([^`]+)` \| (.+?) \|", index.read_text("utf-8"), re.MULTILINE))
    assert set(listed) == {path.name for path in [NOTEBOOK, TUTORIAL, *SCRIPTS]}
    for script in SCRIPTS:
        docstring = ast.get_docstring(ast.parse(script.read_text("utf-8")))
        assert listed[script.name] == docstring.splitlines()[0]


def test_both_indexes_are_one_table():
    first, second = (table_rows(page.read_text(encoding="utf-8")) for page in INDEXES)
    assert first == second
