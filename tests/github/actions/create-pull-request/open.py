"""Opens a "pull request": a branch on the bare remote, rebuilt from its base, and a JSON record beside it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path


def git(*args: str) -> str:
    who = ["-c", "user.name=bot", "-c", "user.email=bot@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


def main() -> int:
    given = json.loads(os.environ["INPUTS"])
    store = Path(os.environ["TEST_STORE"])
    record = store / f"pr-{given['branch'].replace('/', '-')}.json"
    paths = [path for path in re.split(r"[,\n]", given["add-paths"]) if path.strip()]
    body = Path(given["body-path"]).read_text()  # a missing one fails, as the real action does
    git("checkout", "-q", "-B", given["branch"])
    git("add", "--", *paths)  # an entry that matches nothing fails, as the real action does
    if not git("diff", "--cached", "--name-only", f"origin/{given['base']}"):
        return 0
    git("commit", "-q", "-m", given["commit-message"])
    git("push", "-q", "--force", "origin", given["branch"])
    if os.environ.get("TEST_FORBIDDEN"):
        print("GitHub Actions is not permitted to create or approve pull requests.", file=sys.stderr)
        return 1
    operation = "updated" if record.exists() else "created"
    record.write_text(json.dumps({**given, "body": body, "paths": paths, "operation": operation}))
    with Path(os.environ["GITHUB_OUTPUT"]).open("a") as out:
        url = "https://github.example/o/r/pull/7"
        out.write(f"pull-request-number=7\npull-request-url={url}\npull-request-operation={operation}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
