"""A small GitHub on loopback: one repository with pull requests, issues, comments and files, and git over HTTP.

It answers what the workflows ask, in the shapes that GitHub documents, from memory and a bare repository. What people
do there (comment, close, merge, revert) tests do by calling its methods.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.worlds.world import git

NAME = "owner/repo"
BOT = "github-actions[bot]"
Row = dict[str, Any]


class Hub:
    """The server. `people` maps a login to its permission, `dispatched` lists the workflows it was asked to start."""

    def __init__(self, bare: Path, default: str = "main") -> None:
        self.bare, self.default = bare, default
        self.people = {"ann": "write", "eve": "read"}
        self.tokens: dict[str, str] = {}  # token -> login; any other is the workflow's own
        self.pulls: dict[int, Row] = {}
        self.issues: dict[int, Row] = {}  # pull requests too, as on GitHub
        self.comments: dict[int, list[Row]] = {}
        self.reviews: dict[int, list[Row]] = {}  # comments on lines of a pull request
        self._merged: dict[int, tuple[str, str]] = {}  # pull request -> what its merge is made of
        self.labels: set[str] = set()
        self.dispatched: list[Row] = []
        self.runs: list[Row] = []
        self.pinned: list[int] = []
        self.may_open = True  # whether workflows may open pull requests
        self.rules: dict[str, list[str]] = {}  # branch -> types of the rules that apply to it
        self.unknown_owners: list[str] = []  # of CODEOWNERS
        self.forbidden: set[str] = set()  # words of paths that it refuses with 403
        self._lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.remote = f"{self.url}/{NAME}.git"

    def close_down(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # What people do.

    def open(self, branch: str) -> Row | None:
        """The open pull request of a branch."""
        with self._lock:
            self._look()
            found = [one for one in self.pulls.values() if one["head"]["ref"] == branch]
            return next((one for one in found if one["state"] == "open"), None)

    def comment(self, number: int, body: str, by: str = "ann") -> Row:
        with self._lock:
            wrote = {"ann": "OWNER", BOT: "NONE"}.get(by, "NONE")
            listed = self.comments.setdefault(number, [])
            row = {"id": 1000 * number + len(listed), "body": body, "user": _user(by), "created_at": self.now}
            listed.append({**row, "author_association": wrote})
            return listed[-1]

    def review(self, number: int, line: str, body: str, by: str = "ann") -> None:
        """A comment on a line that the pull request adds."""
        row = {
            **self.comment(number, body, by),
            "html_url": f"https://example.com/{number}#{len(self.reviews)}",
        }
        self.reviews.setdefault(number, []).append({**row, "diff_hunk": f"@@ -1 +1,2 @@\n {{}}\n+{line}"})

    def said(self, number: int) -> list[str]:
        """The comments on a pull request or an issue."""
        return [row["body"] for row in self.comments.get(number, ())]

    def close(self, number: int, by: str = "ann") -> None:
        with self._lock:
            self._look()
            for row in (self.issues[number], self.pulls.get(number, {})):
                row |= {"state": "closed", "closed_at": self.now, "closed_by": _user(by)}

    def merge(self, number: int, how: str = "merge", by: str = "ann") -> None:
        """The button: a merge commit, or one squashed commit; the branch goes with it."""
        one = self.pulls[number]
        branch, message = one["head"]["ref"], f"{one['title']} (#{number})"
        with self.desk() as desk:
            options = ["--squash"] if how == "squash" else ["--no-ff", "-m", message]
            git(desk, "merge", "-q", *options, f"origin/{branch}")
            if how == "squash":
                git(desk, "commit", "-q", "-m", message)
            git(desk, "push", "-q", "origin", self.default)
            tip = git(desk, "rev-parse", "HEAD").strip()
        self.close(number, by)
        one |= {"merged_at": self.now, "merge_commit_sha": tip}
        git(self.bare, "update-ref", "-d", f"refs/heads/{branch}")

    def revert(self, number: int, by: str = "ann", why: str = "") -> None:
        """The button "Revert", and the merge of what it opens."""
        merged = self.pulls[number]
        branch = f"revert-{number}-{merged['head']['ref']}"
        with self.desk() as desk:
            tip = merged["merge_commit_sha"]
            parents = git(desk, "rev-list", "--parents", "-n1", tip).split()
            git(desk, "checkout", "-q", "-b", branch)
            git(desk, "revert", "--no-edit", *(["-m", "1"] if len(parents) > 2 else []), tip)
            git(desk, "push", "-q", "origin", branch)
        title, body = f'Revert "{merged["title"]}"', f"Reverts {NAME}#{number}\n\n{why}"
        self.merge(self.start(branch, self.default, title, body, by)["number"], by=by)

    def desk(self) -> _Desk:
        """A clone in which a person works, at the default branch."""
        return _Desk(self)

    # What the answers are made of.

    @property
    def now(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def start(self, branch: str, base: str, title: str, body: str, by: str, draft: bool = False) -> Row:
        """Open a pull request."""
        with self._lock:
            number = len(self.issues) + 7
            about = {"number": number, "title": title, "body": body, "user": _user(by), "state": "open"}
            about |= {"created_at": self.now, "closed_at": None, "labels": [], "closed_by": None}
            about |= {"html_url": f"{self.url}/{NAME}/pull/{number}", "node_id": f"PR_{number}"}
            self.issues[number] = {**about, "pull_request": {"url": f"{self._api}/pulls/{number}"}}
            head = {"ref": branch, "label": f"owner:{branch}", "sha": "", "repo": {"full_name": NAME}}
            base_of = {"ref": base, "sha": self.tip(base), "repo": {"full_name": NAME}}
            merged = {"merged_at": None, "merge_commit_sha": None}
            self.pulls[number] = {**about, "draft": draft, "head": head, "base": base_of, **merged}
            self._look()
            return self.pulls[number]

    def tip(self, branch: str) -> str:
        """Where a branch stands; empty if there is none."""
        return git(self.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()

    def _look(self) -> None:
        """Heads follow their branches while they are open; one whose branch is gone is closed."""
        waiting = {number: one for number, one in self.pulls.items() if one["state"] == "open"}
        if not waiting:
            return
        told = git(self.bare, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads")
        tips = dict(line.split() for line in told.splitlines())
        for number, one in waiting.items():
            tip, onto = tips.get(one["head"]["ref"]), tips[one["base"]["ref"]]
            if tip and self._merged.get(number) != (onto, tip):
                one["head"]["sha"] = tip
                git(self.bare, "update-ref", f"refs/pull/{number}/head", tip)
                self._merge_ref(number, onto, tip)
                self._merged[number] = (onto, tip)
            elif not tip and one["head"]["sha"]:
                self.close(number, BOT)

    def _merge_ref(self, number: int, onto: str, tip: str) -> None:
        """What a workflow on pull requests checks out: the change merged into its base."""
        with suppress(AssertionError):  # it conflicts: then there is none, as on GitHub
            tree = git(self.bare, "merge-tree", "--write-tree", onto, tip).strip()
            merged = git(self.bare, "commit-tree", tree, "-p", onto, "-p", tip, "-m", "merge").strip()
            git(self.bare, "update-ref", f"refs/pull/{number}/merge", merged)

    @property
    def _api(self) -> str:
        return f"{self.url}/repos/{NAME}"

    def answer(self, method: str, path: str, query: dict[str, str], given: Any, by: str) -> tuple[int, Any]:
        """One call of the API: status and value."""
        if any(word in f"{method} {path}" for word in self.forbidden):
            return 403, {"message": "Resource not accessible by integration"}
        with self._lock:
            self._look()
            for wanted, pattern, handle in ROUTES:
                if wanted == method and (match := re.fullmatch(pattern, path)):
                    try:
                        return handle(self, *match.groups(), query=query, given=given, by=by)
                    except (KeyError, StopIteration, AssertionError, subprocess.CalledProcessError):
                        return 404, {"message": "Not Found"}
        return 404, {"message": "Not Found"}

    def get_repo(self, **_: Any) -> tuple[int, Any]:
        return 200, {"full_name": NAME, "default_branch": self.default}

    def get_pulls(self, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        wanted, head = query.get("state", "open"), query.get("head")
        found = [one for one in self.pulls.values() if wanted in ("all", one["state"])]
        found = [one for one in found if head in (None, one["head"]["label"])]
        return 200, _page(sorted(found, key=lambda one: -one["number"]), query)

    def post_pulls(self, *, given: Row, by: str, **_: Any) -> tuple[int, Any]:
        if not self.tip(given["head"]) or self.open(given["head"]):
            return 422, {"message": "Validation Failed"}
        names = (given[name] for name in ("head", "base", "title", "body"))
        return 201, self.start(*names, by, draft=bool(given.get("draft")))

    def get_pull(self, number: str, **_: Any) -> tuple[int, Any]:
        return 200, self.pulls[int(number)]

    def patch(self, _kind: str, number: str, *, given: Row, by: str, **_: Any) -> tuple[int, Any]:
        row = self.issues[int(number)]
        for one in (row, self.pulls.get(int(number), {})):
            one |= {name: given[name] for name in ("title", "body") if name in given}
        if given.get("state") == "closed":
            self.close(int(number), by)
        elif given.get("state") == "open":
            row["state"] = "open"
        return 200, self.pulls.get(int(number), row)

    def get_files(self, number: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        one = self.pulls[int(number)]
        names = git(self.bare, "diff", "--name-only", f"{one['base']['sha']}...{one['head']['sha']}").split()
        return 200, _page([{"filename": name} for name in names], query)

    def get_commits(self, number: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        one = self.pulls[int(number)]
        form = "%H%x00%an%x00%ae%x00%cn%x00%ce%x00%s"
        told = git(self.bare, "log", "--reverse", f"--format={form}", f"{self.default}..{one['head']['sha']}")
        rows = []
        for line in told.splitlines():
            sha, author, mail, committer, sent, subject = line.split("\0")
            who = {"author": {"name": author, "email": mail}, "committer": {"name": committer, "email": sent}}
            rows.append({"sha": sha, "commit": {**who, "message": subject}})
        return 200, _page(rows, query)

    def get_contents(self, path: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        at = query.get("ref") or self.default
        data = subprocess.run(
            ["git", "-C", self.bare, "cat-file", "blob", f"{at}:{path}"], check=True, capture_output=True
        ).stdout
        return 200, {"type": "file", "encoding": "base64", "content": base64.b64encode(data).decode()}

    def get_compare(self, base: str, head: str, **_: Any) -> tuple[int, Any]:
        ahead = git(self.bare, "merge-base", base, head).strip() == git(self.bare, "rev-parse", base).strip()
        return 200, {"status": "ahead" if ahead else "diverged"}

    def get_issues(self, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        wanted, labels = query.get("state", "open"), set(filter(None, query.get("labels", "").split(",")))
        found = [one for one in self.issues.values() if wanted in ("all", one["state"])]
        found = [one for one in found if labels <= {label["name"] for label in one["labels"]}]
        return 200, _page(sorted(found, key=lambda one: -one["number"]), query)

    def post_issues(self, *, given: Row, by: str, **_: Any) -> tuple[int, Any]:
        number = len(self.issues) + 7
        about = {"number": number, "state": "open", "user": _user(by), "node_id": f"I_{number}"}
        about |= {"html_url": f"{self.url}/{NAME}/issues/{number}", "created_at": self.now, "closed_by": None}
        labels = [{"name": name} for name in given.get("labels", ())]
        self.issues[number] = {**about, "title": given["title"], "body": given["body"], "labels": labels}
        return 201, self.issues[number]

    def get_issue(self, number: str, **_: Any) -> tuple[int, Any]:
        return 200, self.issues[int(number)]

    def get_comments(self, number: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        return 200, _page(self.comments.get(int(number), []), query)

    def get_reviews(self, number: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        return 200, _page(self.reviews.get(int(number), []), query)

    def post_comments(self, number: str, *, given: Row, by: str, **_: Any) -> tuple[int, Any]:
        return 201, self.comment(self.issues[int(number)]["number"], given["body"], by)

    def patch_comment(self, number: str, *, given: Row, **_: Any) -> tuple[int, Any]:
        rows = (row for listed in self.comments.values() for row in listed)
        row = next(row for row in rows if row["id"] == int(number))
        row["body"] = given["body"]
        return 200, row

    def post_labels(self, number: str, *, given: Row, **_: Any) -> tuple[int, Any]:
        self.labels |= set(given["labels"])
        for row in (self.issues[int(number)], self.pulls.get(int(number), {})):
            row["labels"] = [{"name": name} for name in given["labels"]]
        return 200, self.issues[int(number)]["labels"]

    def get_permission(self, login: str, **_: Any) -> tuple[int, Any]:
        return 200, {"permission": self.people[unquote(login)]}

    def delete_ref(self, branch: str, *, by: str, **_: Any) -> tuple[int, Any]:
        git(self.bare, "update-ref", "-d", f"refs/heads/{branch}", self.tip(branch))
        for number, one in self.pulls.items():
            if one["head"]["ref"] == branch and one["state"] == "open":
                self.close(number, by)
        return 204, None

    def post_dispatch(self, workflow: str, *, given: Row, **_: Any) -> tuple[int, Any]:
        self.dispatched.append({"workflow": workflow, **given})
        return 204, None

    def get_runs(self, **_: Any) -> tuple[int, Any]:
        return 200, {"total_count": len(self.runs), "workflow_runs": self.runs}

    def get_allowed(self, **_: Any) -> tuple[int, Any]:
        return 200, {
            "default_workflow_permissions": "read",
            "can_approve_pull_request_reviews": self.may_open,
        }

    def get_owners(self, **_: Any) -> tuple[int, Any]:
        wrong = [
            {"kind": "Unknown owner", "message": f"Unknown owner: {name}\n\n  /x/ {name}"}
            for name in self.unknown_owners
        ]
        return 200, {"errors": wrong}

    def get_labels(self, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        return 200, _page([{"name": name} for name in sorted(self.labels)], query)

    def get_rules(self, branch: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        return 200, _page([{"type": kind, "ruleset_id": 42} for kind in self.rules.get(branch, ())], query)

    def graphql(self, *, given: Row, **_: Any) -> tuple[int, Any]:
        number = int(given["variables"]["id"].partition("_")[2])
        if "convertPullRequestToDraft" in given["query"]:
            self.pulls[number]["draft"] = True
        elif "pinIssue" in given["query"]:
            self.pinned.append(number)
        else:
            return 200, {"errors": [{"message": "unknown field"}]}
        return 200, {"data": {}}


_R = f"/repos/{NAME}"
ROUTES: list[tuple[str, str, Callable[..., tuple[int, Any]]]] = [
    ("GET", _R, Hub.get_repo),
    ("GET", f"{_R}/pulls", Hub.get_pulls),
    ("POST", f"{_R}/pulls", Hub.post_pulls),
    ("GET", rf"{_R}/pulls/(\d+)", Hub.get_pull),
    ("PATCH", rf"{_R}/(pulls|issues)/(\d+)", Hub.patch),
    ("GET", rf"{_R}/pulls/(\d+)/files", Hub.get_files),
    ("GET", rf"{_R}/pulls/(\d+)/commits", Hub.get_commits),
    ("GET", rf"{_R}/contents/(.+)", Hub.get_contents),
    ("GET", rf"{_R}/compare/(\w+)\.\.\.(\w+)", Hub.get_compare),
    ("GET", f"{_R}/issues", Hub.get_issues),
    ("POST", f"{_R}/issues", Hub.post_issues),
    ("GET", rf"{_R}/issues/(\d+)", Hub.get_issue),
    ("GET", rf"{_R}/issues/(\d+)/comments", Hub.get_comments),
    ("GET", rf"{_R}/pulls/(\d+)/comments", Hub.get_reviews),
    ("POST", rf"{_R}/issues/(\d+)/comments", Hub.post_comments),
    ("PATCH", rf"{_R}/issues/comments/(\d+)", Hub.patch_comment),
    ("POST", rf"{_R}/issues/(\d+)/labels", Hub.post_labels),
    ("GET", rf"{_R}/collaborators/([^/]+)/permission", Hub.get_permission),
    ("DELETE", rf"{_R}/git/refs/heads/(.+)", Hub.delete_ref),
    ("POST", rf"{_R}/actions/workflows/([\w.]+)/dispatches", Hub.post_dispatch),
    ("GET", f"{_R}/actions/runs", Hub.get_runs),
    ("GET", f"{_R}/actions/permissions/workflow", Hub.get_allowed),
    ("GET", f"{_R}/codeowners/errors", Hub.get_owners),
    ("GET", f"{_R}/labels", Hub.get_labels),
    ("GET", rf"{_R}/rules/branches/(.+)", Hub.get_rules),
    ("POST", "/graphql", Hub.graphql),
]


class _Desk:
    """A throw-away clone beside the bare repository."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.folder = hub, hub.bare.parent / f"desk-{os.urandom(4).hex()}"

    def __enter__(self) -> Path:
        git(self.hub.bare.parent, "clone", "-q", str(self.hub.bare), str(self.folder))
        git(self.folder, "checkout", "-q", self.hub.default)
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["rm", "-rf", self.folder], check=True)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts.path.startswith(f"/{NAME}.git/"):
            return self._git(parts.path, parts.query, body)
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if not token or scheme != "Bearer":
            return self._send(401, json.dumps({"message": "Requires authentication"}).encode())
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        by = self.hub.tokens.get(token, BOT)
        given = json.loads(body or b"{}")
        status, value = self.hub.answer(self.command, unquote(parts.path), query, given, by)
        return self._send(status, b"" if value is None else json.dumps(value).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    def _git(self, path: str, query: str, body: bytes) -> None:
        """`git http-backend`, which speaks CGI."""
        env = {
            "GIT_PROJECT_ROOT": str(self.hub.bare),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix(f"/{NAME}.git"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "REMOTE_USER": "someone",  # pushing is allowed
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH": os.environ["PATH"],
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self._send(int(fields.pop("Status", "200").split()[0]), content, fields)

    def _send(self, status: int, body: bytes, fields: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (fields or {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the tests read what it answered."""


def _user(login: str) -> Row:
    return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


def _page(rows: list[Row], query: dict[str, str]) -> list[Row]:
    size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
    return rows[size * (page - 1) : size * page]
