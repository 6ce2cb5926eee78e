"""`equipoise compare BEFORE AFTER [DATA]` and `equipoise verify REPORT DATA`; thresholds."""

from __future__ import annotations

import contextlib
import io
import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.files import by_ending, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable


# Options of a recorded command that are not part of what was computed, with and without a value.
_WITH_VALUE = {"--out", "-o", "--fail-if", "--thresholds", "--bound", "--auditor", "--organization"}
_WITHOUT_VALUE = {"--json", "--md", "--open", "--quiet", "-q", "--debug"}


@dataclass(frozen=True)
class ReviewOptions:
    """Thresholds, repeated halves and the sign-off of an audit."""

    fail_if: list[str] | None = None
    thresholds: Path | None = None
    bound: str = "estimate"
    repeat: int = 0
    auditor: str | None = None
    organization: str | None = None

    def check(self, *, one_table: bool) -> None:
        """Refuse conditions that cannot be read and halves of a split, before the work."""
        self.limits()
        if self.repeat and not one_table:
            raise InvalidParameterError(
                "--repeat draws halves of one table: it cannot be used with --cut, --train or "
                "--test."
            )

    def limits(self) -> list[lib.thresholds.Threshold]:
        """Return the conditions of the command line and of the file."""
        found = [lib.thresholds.Threshold.parse(text, self.bound) for text in self.fail_if or []]
        return found + (lib.thresholds.read_thresholds(self.thresholds) if self.thresholds else [])

    def review(
        self,
        found: lib.Findings,
        data: lib.Interactions | lib.Split,
        again: Callable[[lib.Interactions], lib.Findings],
        command: str,
    ) -> lib.Findings:
        """Add the manifest: the data, files, command, noise and thresholds of the audit."""
        limits = self.limits()
        files = sorted(opt.named_files(shlex.split(command)[2:]), key=lambda path: path.name)
        content = {**found.manifest, "command": command, "files": lib.manifest.hashes(files)}
        if self.repeat:
            content["noise"] = lib.halves.noise(data, again, self.repeat, found.settings.seed)  # type: ignore[arg-type]  # refuses parts
        if limits:
            numbers = lib.compare.numbers(lib.compare.as_report(found))
            content["thresholds"] = [limit.check(numbers) for limit in limits]
        return replace(found, manifest=content)

    def sign(self, report: Path) -> None:
        """Write the sign-off next to the report, if somebody signs."""
        if self.auditor or self.organization:
            console.say(f"Signed: {lib.manifest.sign_off(report, self.auditor, self.organization)}")

    def exit_code(self, found: lib.Findings) -> int:
        """Report thresholds that failed; 1 if there are any."""
        failed = [each for each in found.manifest.get("thresholds", ()) if each["failed"]]
        for each in failed:
            console.say(f"failed: {each['condition']} (the {each['bound']} is {each['value']:.4g})")
        return 1 if failed else 0


def recorded_command(data: str | None) -> str:
    """Return the command line without outputs and passwords, with DATA for the data."""
    words = ["DATA" if word == data else word for word in console.arguments]
    kept, values = [], iter(words)
    for word in values:
        name, has_value, _ = word.partition("=")
        if name in _WITH_VALUE:
            if not has_value:
                next(values, None)
        elif word not in _WITHOUT_VALUE:
            kept.append(console.without_passwords(word))
    return shlex.join(["equipoise", *kept])


def compare(
    before: Path,
    after: Path,
    reading: opt.DataOptions,
    data: str | None = None,
    k: int = defaults.MEASURED_K,
    names: str | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Show what changed between two audits, or between two models on one table, beyond noise.

    Reports made with --repeat include the noise of fitting again. Without it, a model that was
    fitted on new data may differ by chance.
    """
    writers = {".html": "to_html", ".md": "to_markdown", ".json": "to_json"}
    writer = "" if out is None else by_ending(out, writers)
    opt.check_outputs({"--out": out})
    if data is None:
        reports = [lib.read_report(path) for path in (before, after)]
        found = lib.compare.compare(*reports)
        if not all(report.get("manifest", {}).get("noise") for report in reports):
            console.say(
                "note: the reports were made without --repeat. Changes may be the noise of fitting "
                "again."
            )
    else:
        models = {before.name: str(before), after.name: str(after)}
        if len(models) == 1:
            models = {str(before): str(before), str(after): str(after)}
        found = lib.compare_models(
            reading.read(data),
            models,
            k=k,
            names=reading.names(data, names),
            source=opt.shown(data),
            progress=console.progress(),
        )
    if out is not None:
        write_whole(out, getattr(found, writer)().encode())
        console.say(f"Report: {out.resolve()}")
    if as_json:
        console.write(found.to_json())
        return
    *news, same = found.sections()
    for section in news:
        console.print_table(section)
    console.write(f"{len(same.rows)} numbers did not change beyond noise (--out lists them).")


def verify(
    report: Path, data: str | None = None, tolerance: float = 0.0, as_json: bool = False
) -> int:
    """Compute an audit again and show whether every number is the same.

    Exits with 1 and names the first number that differs. Other versions of the libraries may
    change last digits: see --tolerance.
    """
    content = lib.read_report(report)
    signed = lib.manifest.check_signature(report)
    again = _recomputed(content, data, report)
    found = list(lib.manifest.differences(content, again, tolerance=tolerance))
    versions = [each.get("manifest", {}).get("versions") for each in (content, again)]
    same_data = _fingerprints(content) == _fingerprints(again)
    facts = {
        "same": not found,
        "values": lib.manifest.count_values(content),
        "different": len(found),
        "first": found[0]._asdict() if found else None,
        "signed": signed,
        "versions": None if versions[0] == versions[1] else versions,
        "same_data": same_data,
    }
    if as_json:
        console.write_json(facts, indent=1)
        return 1 if found else 0
    if signed:
        console.write(signed)
    if versions[0] != versions[1]:
        console.write(f"Versions differ: {versions[0]} in the report, {versions[1]} here.")
    if not same_data:
        console.write("DATA are not the data of the report: their fingerprints differ.")
    if found:
        console.write(
            f"{len(found):,} of {facts['values']:,} values differ. The first: {found[0]}."
        )
        return 1
    console.write(f"All {facts['values']:,} values are the same.")
    return 0


def _recomputed(content: dict[str, Any], data: str | None, report: Path) -> dict[str, Any]:
    """Run the recorded command on the data."""
    from equipoise.cli.app import run

    words = shlex.split(content.get("manifest", {}).get("command") or "")
    if words[:2] != ["equipoise", "audit"]:
        raise InvalidDataError(
            f"{report} does not contain the command that made it. Make it with equipoise audit "
            "DATA --out report.json."
        )
    if "DATA" in words and data is None:
        raise InvalidParameterError("give DATA, the data that were audited.")
    command = [str(data) if word == "DATA" else word for word in words[1:]]
    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        out = Path(folder) / "report.json"
        limits = content["manifest"].get("thresholds", ())
        options = [
            word
            for each in limits
            for word in ("--fail-if", f"{each['condition']} on {each['bound']}")
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            quiet = [] if console.show_progress else ["--quiet"]
            code = run([*quiet, *command, *options, "--out", str(out)])
        if code not in (0, 1):
            raise InvalidDataError("the audit could not be computed again; see above.")
        return lib.read_report(out)


def _fingerprints(report: dict[str, Any]) -> dict[str, Any]:
    parts = report.get("manifest", {}).get("data", {})
    return {name: part.get("fingerprint") for name, part in parts.items()}
