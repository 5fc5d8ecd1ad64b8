"""The example domain: builders of the market suites; nothing at run time imports this."""
