"""Ask pip-audit about every pin of requirements-test.lock, and say when it could not be asked.

    python scripts/audit.py PYTHON

PYTHON is the interpreter of a venv for pip-audit itself, so that it is not among what it looks at.
Exit code 0: nothing known; 1: vulnerabilities, listed; 2: not done, for all packages or some.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-test.lock"
CLEAN, VULNERABLE, NOT_DONE = 0, 1, 2


def verdict(answer: str, errors: str) -> tuple[int, str]:
    r"""Return an exit code and what to print, from pip-audit's output.

    Examples
    --------
    >>> verdict('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', "")
    (0, 'audit: 1 of 1 packages looked up.\naudit: no known vulnerability among these.')
    >>> verdict("", "ConnectionError: no route")
    (2, 'audit: NOT DONE, pip-audit could not answer: ConnectionError: no route')
    """
    try:
        listed = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        lines = errors.strip().splitlines() or ["it said nothing"]
        return NOT_DONE, f"audit: NOT DONE, pip-audit could not answer: {lines[-1][:300]}"
    found = [
        f"{item['name']} {item['version']}: {vulnerability['id']}"
        for item in listed
        for vulnerability in item.get("vulns", ())
    ]
    skipped = [item for item in listed if "skip_reason" in item]
    lines = [f"audit: {len(listed) - len(skipped)} of {len(listed)} packages looked up."]
    if not found and len(skipped) < len(listed):
        lines.append("audit: no known vulnerability among these.")
    lines += found
    if skipped:
        reasons = sorted({item["skip_reason"].replace(item["name"], "it") for item in skipped})
        names = ", ".join(item["name"] for item in skipped[:5])
        lines.append(f"audit: NOT DONE for {len(skipped)} ({names}, ...): {reasons[0][:200]}")
    code = VULNERABLE if found else NOT_DONE if skipped else CLEAN
    return code, "\n".join(lines)


def main(python: str) -> int:
    """Install pip-audit, run it and print what it found."""
    install = [python, "-m", "pip", "install", "--quiet", "pip-audit"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        print(verdict("", done.stderr)[1])
        return NOT_DONE
    command = [python, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes"]
    command += ["--disable-pip", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code, words = verdict(done.stdout, done.stderr)
    print(words)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
