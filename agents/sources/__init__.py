"""Where agents' inputs come from: files, a function, an address, or a source that a domain brings."""
