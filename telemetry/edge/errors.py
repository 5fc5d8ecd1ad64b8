"""The two ways in which a script ends early on purpose."""


class BadInput(Exception):
    """Input or configuration a person has to mend; the message is one line: file, field, what is allowed."""


class Stopped(Exception):
    """The work stopped early (budget, outage); what was done is saved."""
