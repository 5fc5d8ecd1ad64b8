"""Lines of Python that lead out of plain computing, each by another way, lines that do not, and what the guard says."""

from __future__ import annotations

from meta.publish.boundaries import check_python
from meta.publish.contents import REGULAR, Change

# A module that does more than compute, however it is come by.
_MODULES = [
    *("os", "sys", "subprocess", "socket", "ctypes", "pathlib", "shutil", "importlib", "builtins", "inspect"),
    *(
        "gc",
        "pickle",
        "marshal",
        "code",
        "codecs",
        "io",
        "tempfile",
        "threading",
        "multiprocessing",
        "signal",
    ),
    *(
        "asyncio",
        "urllib.request",
        "http.client",
        "ssl",
        "requests",
        "httpx",
        "openai",
        "eval.grading",
        "meta",
    ),
    *(
        "telemetry.logger",
        "agents.llm_client",
        "agents.market.live",
        "weakref",
        "traceback",
        "logging",
        "runpy",
    ),
    *(
        "pkgutil",
        "zipimport",
        "sqlite3",
        "mmap",
        "fcntl",
        "resource",
        "pty",
        "site",
        "ast",
        "dis",
        "types as t, os",
    ),
]
_HELD = {  # what modules that only compute hold
    "random": ["_os", "_sha512", "_urandom", "_inst.__class__"],
    "typing": ["sys", "functools.sys", "contextlib"],
    "json": ["codecs", "decoder.scanner.c_make_scanner.__class__", "codecs.open"],
    "dataclasses": ["sys", "inspect", "builtins", "inspect.os", "_FIELDS"],
    "enum": ["sys", "bltns"],
    "statistics": ["sys", "random._os"],
    "collections": ["_sys", "abc.sys"],
    "functools": ["_thread", "_make_key"],
    "calendar": ["sys", "_locale"],
    "textwrap": ["re._compiler"],
    "decimal": ["_pydecimal"],
    "fractions": ["sys"],
    "string": ["_string", "_re"],
    "datetime": ["sys"],
}

_READS = [
    "open('eval/suites/level.jsonl')", "exec('1')", "eval('1')", "compile('1', '', 'eval')", "__import__('os')",
    "globals()", "locals()", "vars(self)", "breakpoint()", "input()", "help(self)", "print('::set-output')",
    "dir(self)", "exit()", "quit()", "f = open", "f = [eval][0]", "memoryview(b'')", "__builtins__['open']",
    "__loader__.load_module('os')", "__spec__.loader", "__file__", "credits", "license()",
]  # fmt: skip

_BY_NAME = [
    "getattr(random, '_' + 'os').popen", "getattr(random, '_os')", "getattr(random, name)", "hasattr(random, n)",
    "setattr(BaseAgent, 'run', None)", "setattr(self, 'x', 1)", "delattr(BaseAgent, 'run')", "g = getattr",
    "list(map(getattr, [random], ['_os']))", "f = [getattr]", "x = {'g': getattr}", "(lambda g=getattr: g)",
    "getattr(self, '__class__')", "getattr(random, f'_{1}')", "getattr(random, ''.join(['_', 'os']))",
    "getattr(*[random, '_os'])", "getattr(random, inputs['name'])", "getattr(random, b'_os'.decode())",
    "getattr(random, '_os', None)", "getattr(self.model, 'api_key')", "s = setattr",
    "import operator; operator.attrgetter('_os')(random)", "import operator; operator.methodcaller('x')",
    "from operator import attrgetter", "from operator import methodcaller as m", "from operator import attrgetter as a",
    "import operator as o; o.attrgetter('a.b')", "import functools; functools.reduce(getattr, ['_os'], random)",
    "import string; string.Formatter().get_field('0._os', [random], {})", "from string import Formatter",
    "'{0._os}'.format(random)", "'{0.__class__}'.format(random)", "('{0._' + 'os}').format(random)",
    "'{x[_y]}'.format(x={})", "text = '{}'\ntext.format(random)", "inputs['t'].format_map({})",
    "import types; types.FunctionType", "from types import CodeType", "import types; types.ModuleType('x')",
    "import functools; functools.update_wrapper(f, random, ['_' + 'os'])",
    "match random:\n    case object(_os=found):\n        pass",
    "match self:\n    case object(__class__=found):\n        pass",
    "match random:\n    case object(sys=found):\n        pass",
]  # fmt: skip

_INSIDE = [
    "().__class__.__base__.__subclasses__()", "self.__class__.__mro__", "type(self).mro()", "self.__dict__",
    "self.analyze.__func__.__globals__", "BaseAgent.__init__.__builtins__", "(lambda: 0).__code__",
    "random.__loader__", "random.__dict__['_os']", "random.__spec__.loader", "''.__class__", "x = '__globals__'",
    "BaseAgent.__subclasses__()", "random.seed.__self__", "random.__getattribute__('_os')", "inputs.__reduce_ex__(2)",
    "(x for x in ()).gi_frame.f_back.f_globals", "(x for x in ()).gi_frame", "g = (x for x in ())\ng.gi_code",
    "self.analyze({}).cr_frame", "self.analyze({}).cr_code.co_consts", "self.analyze({}).cr_await",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.tb_next", "frame.f_locals", "frame.f_builtins", "frame.f_code",
    "async_gen.ag_frame", "self.model.api_key", "self._client._transport.x._y", "self.model._sdk", "inputs._data",
    "self.model.client._api", "BaseAgent._private", "random.Random._randbelow", "random._inst",
    "import typing; typing.get_type_hints(self)", "from typing import get_type_hints", "from typing import ForwardRef",
    "import functools; functools.singledispatch(f)", "from functools import singledispatch",
    "from functools import singledispatchmethod", "import zoneinfo; zoneinfo.reset_tzpath(['/'])",
]  # fmt: skip

_SETS = [
    "BaseAgent.run = None", "BaseAgent.checked = lambda self, x: x", "random.random = lambda: 0.5",
    "b = BaseAgent\nb.run = None", "random.seed, x = None, 1", "for BaseAgent.run in [None]:\n    pass",
    "del BaseAgent.run", "BaseAgent.x: int = 1", "BaseAgent.count += 1", "self.model.ask = None", "inputs.x = 1",
    "self.checked = lambda x: x", "type(self).run = None", "super().run = None",
    "[random.x for random.x in [1]]", "with self as BaseAgent.run:\n    pass",
    "def helper(self):\n    self.run = None", "class Other:\n    def set(self):\n        self.run = None",
    "class Other:\n    def __init__(self, other):\n        other.run = None",
    "(BaseAgent.run, x) = 1, 2", "[BaseAgent.run, *x] = 1, 2",
]  # fmt: skip

_FILES = [
    f"(self.prompts.root / 'eval').{way}"
    for way in (
        *("read_text()", "read_bytes()", "open()", "iterdir()", "glob('*')", "rglob('*')", "unlink()"),
        *("write_text('')", "write_bytes(b'')", "touch()", "mkdir()", "rename('x')", "rmdir()", "chmod(511)"),
        *("symlink_to('/')", "hardlink_to('/')", "walk()"),
    )
]

HOSTILE = [
    *(f"import {name}" for name in _MODULES),
    *(f"import {module}; {module}.{held}" for module, parts in _HELD.items() for held in parts),
    *(f"from {m} import {h}" for m, parts in _HELD.items() for h in parts if h.isidentifier()),
    *("from random import *", "from . import live", "from .live import Live", "from .. import eval"),
    *(
        "from agents.model.wire import Wire",
        "from agents import llm_client",
        "import agents.market.live as x",
    ),
    *(*_READS, *_BY_NAME, *_INSIDE, *_SETS, *_FILES),
]

HARMLESS = [
    "import math; math.sqrt(2)", "from statistics import fmean", "import collections.abc", "import re; re.compile('x')",
    "from dataclasses import dataclass", "import datetime as dt; dt.date(2026, 1, 1).isoformat()",
    "x = inputs.get('a')",
    "from collections import Counter", "import itertools; itertools.pairwise([1])", "self.log.append(1)",
    "'{} of {:.2f}'.format(1, 2.0)", "f'{LIMIT:.2f}'", "getattr(self, 'limit', 5)", "hasattr(self, 'limit')",
    "self._cache.get(1)", "self._helper()", "type(self).__name__", "super().check()", "sorted([1], key=abs)",
    "class Other:\n    def __init__(self):\n        super().__init__()\n        self.x = 1",
    "import json; json.dumps({})",
    "x = {'a': 1}\nx['a'] = 2", "from functools import cache", "import random; random.Random(1).random()",
    "match inputs:\n    case {'numbers': [first, *_]}:\n        pass", "from zoneinfo import ZoneInfo",
    "import operator; operator.itemgetter(1)", "from decimal import Decimal", "x = [n for n in range(3) if n]",
]  # fmt: skip

BEFORE = """\
import random
from agents.base import BaseAgent, Inputs, Item

LIMIT = 50


class Level(BaseAgent):
    async def analyze(self, inputs: Inputs) -> list[Item]:
        {line}
        return [{"risk_score": number} for number in inputs["numbers"] if number >= LIMIT]
"""


def refusals(line: str) -> list[str]:
    """Why code is refused into which a line is put, at the top where it starts with `import`, `from` or `class`."""
    before = BEFORE.replace("{line}", "pass")
    top = line.startswith(("import ", "from ", "class ", "def ", "@"))
    after = f"{line}\n{before}" if top else BEFORE.replace("{line}", line.replace("\n", "\n        "))
    return list(check_python(Change("agents/level.py", REGULAR, REGULAR, before.encode(), after.encode(), 1)))
