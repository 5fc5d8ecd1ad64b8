"""The two ways in which a script ends early on purpose, and what it could not write on its way."""

import errno

# The disk, somebody's share of it, or the limit of one file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BadInput(Exception):
    """Input or configuration a person has to mend; the message is one line: file, field, what is allowed."""


class Stopped(Exception):
    """The work stopped early (budget, outage); what was done is saved."""


def of_engine() -> tuple[type[Exception], ...]:
    """What DuckDB raises; where its message quotes bytes that are no text, only that those cannot be decoded."""
    import duckdb

    return duckdb.Error, UnicodeDecodeError


def engine_said(problem: BaseException) -> str:
    """The message of such an error; after its first line it quotes our SQL."""
    if isinstance(problem, UnicodeDecodeError):
        return problem.object.decode(errors="backslashreplace")
    return str(problem)


class Unwritten:
    """Rows that found no room: the script that runs goes on, and says so when it ends."""

    def __init__(self) -> None:
        self.scripts, self.count, self.last = 0, 0, OSError()

    def take(self, problem: BaseException) -> bool:
        """Whether this will be told: it is want of room, and a script is running."""
        if not self.scripts or not isinstance(problem, OSError) or problem.errno not in NO_ROOM:
            return False
        self.count, self.last = self.count + 1, problem
        return True


unwritten = Unwritten()
