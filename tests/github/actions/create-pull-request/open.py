"""Opens a pull request at the small GitHub, its branch rebuilt from its base, and keeps what was asked for as JSON."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ME = "github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>"  # the action's own default


def git(*args: str, committer: str = ME) -> str:
    name, mail = committer.removesuffix(">").split(" <")
    who = ["-c", f"user.name={name}", "-c", f"user.email={mail}", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *args], check=True, capture_output=True, text=True).stdout


def call(token: str, method: str, path: str, value: object = None) -> dict:
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    asked = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, json.dumps(value).encode() if value is not None else None) as answer:
        return json.load(answer)


def main() -> int:
    given = json.loads(os.environ["INPUTS"])
    token, branch = given["token"], given["branch"]
    record = Path(os.environ["TEST_STORE"]) / f"pr-{branch.replace('/', '-')}.json"
    paths = [path for path in re.split(r"[,\n]", given["add-paths"]) if path.strip()]
    body = Path(given["body-path"]).read_text()  # a missing one fails, as the real action does
    git("checkout", "-q", "-B", branch)
    git("add", "--", *paths)  # an entry that matches nothing fails, as the real action does
    if not git("diff", "--cached", "--name-only", f"origin/{given['base']}"):
        return 0
    git("commit", "-q", "-m", given["commit-message"], committer=given.get("committer") or ME)
    git("push", "-q", "--force", "origin", branch)
    owner = os.environ["GITHUB_REPOSITORY"].split("/")[0]
    about = {"title": given["title"], "body": body}
    try:
        known = call(token, "GET", f"pulls?state=open&head={owner}:{branch}")
        if known:
            operation, request = "updated", call(token, "PATCH", f"pulls/{known[0]['number']}", about)
        else:
            asked = {**about, "head": branch, "base": given["base"], "draft": given["draft"] == "always-true"}
            operation, request = "created", call(token, "POST", "pulls", asked)
        call(token, "POST", f"issues/{request['number']}/labels", {"labels": given["labels"].split(",")})
    except urllib.error.HTTPError as problem:
        print(
            f"GitHub Actions is not permitted to create or approve pull requests. ({problem})",
            file=sys.stderr,
        )
        return 1
    record.write_text(json.dumps({**given, "body": body, "paths": paths, "operation": operation}))
    with Path(os.environ["GITHUB_OUTPUT"]).open("a") as out:
        number, url = request["number"], request["html_url"]
        out.write(
            f"pull-request-number={number}\npull-request-url={url}\npull-request-operation={operation}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
