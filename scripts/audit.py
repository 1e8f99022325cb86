"""Look up known vulnerabilities of every pin of requirements-test.lock with pip-audit.

    python scripts/audit.py PYTHON

PYTHON is the interpreter of a separate venv for pip-audit, which is not among the pins.
Exit codes: 0 no vulnerability is known; 1 some are, and are listed; 2 the look-up failed for some
or all packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-test.lock"
CLEAN, VULNERABLE, NOT_DONE = 0, 1, 2


def verdict(answer: str, errors: str) -> tuple[int, str]:
    r"""Return the exit code and the lines to print for the output of pip-audit.

    Examples
    --------
    >>> verdict('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "")
    (0, 'audit: 1 of 1 packages looked up.\naudit: no known vulnerability among these.')
    >>> verdict("", "ConnectionError: no route")
    (2, 'audit: NOT DONE, pip-audit could not answer: ConnectionError: no route')
    """
    try:
        packages = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = errors.strip().splitlines() or ["it printed nothing"]
        return NOT_DONE, f"audit: NOT DONE, pip-audit could not answer: {lines[-1][:300]}"
    vulnerabilities = [
        f"{item['name']} {item['version']}: {vulnerability['id']}"
        for item in packages
        for vulnerability in item.get("vulns", ())
    ]
    skipped = [item for item in packages if "skip_reason" in item]
    lines = [f"audit: {len(packages) - len(skipped)} of {len(packages)} packages looked up."]
    if not vulnerabilities and len(skipped) < len(packages):
        lines.append("audit: no known vulnerability among these.")
    lines += vulnerabilities
    if skipped:
        reasons = sorted({item["skip_reason"].replace(item["name"], "it") for item in skipped})
        names = ", ".join(item["name"] for item in skipped[:5])
        lines.append(f"audit: NOT DONE for {len(skipped)} ({names}, ...): {reasons[0][:200]}")
    code = VULNERABLE if vulnerabilities else NOT_DONE if skipped else CLEAN
    return code, "\n".join(lines)


def main(python: str) -> int:
    """Install pip-audit, run it and print its results."""
    install = [python, "-m", "pip", "install", "--quiet", "pip-audit"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        print(verdict("", done.stderr)[1])
        return NOT_DONE
    command = [python, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes"]
    command += ["--disable-pip", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code, lines = verdict(done.stdout, done.stderr)
    print(lines)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
