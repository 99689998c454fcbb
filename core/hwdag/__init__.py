"""hwdag: question answering over long documents with a Hierarchical Weighted DAG.

The public names are listed in `__init__.pyi`. Each is loaded on first use (PEP 562): importing the
package touches neither torch nor transformers.
"""

from importlib import import_module

# why so: the loader also reads from a zip
_stub = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
_words = map(str.split, _stub.splitlines())
_module_of = {line[-1]: line[1] for line in _words if line[:1] == ["from"]}

__all__ = sorted(_module_of)


def __getattr__(name: str) -> object:
    if name not in _module_of:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_module_of[name]), name)


def __dir__() -> list[str]:
    return __all__
