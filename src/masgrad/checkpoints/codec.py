"""Nested records as arrays and JSON, and back, to the last bit.

Arrays go to a list; all else is a structure of JSON values, in which an array is named by its
number. Tuples, dictionaries and records (NamedTuples and dataclasses of masgrad) are objects with
one key that says what they are. Objects of other classes of masgrad are their attributes, and those
that live on beside what is saved (`live`) are known by their number. A float is stored by its bits,
so that -0.0 and the payload of a NaN are kept. A file never chooses what is run: only classes of
masgrad are rebuilt, field by field, without their constructors. Arrays of JAX come back as NumPy
arrays. What was one array twice is so again.
"""

import dataclasses
import functools
import importlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.types import is_from

PACKAGE = "masgrad"


def encode(value: Any, live: Sequence[Any] = ()) -> tuple[list[np.ndarray], Any]:
    """The arrays of a value, and its structure in JSON; `live` are objects that it refers to."""
    encoder = _Encoder(live)
    return encoder.arrays, encoder.structure(value)


def decode(arrays: list[np.ndarray], structure: Any, live: Sequence[Any] = ()) -> Any:
    """The value of arrays and a structure that `encode` made, with as many live objects."""
    return _Decoder(arrays, live).value(structure)


class _Encoder:
    """Collects arrays; an array that is met twice is stored once."""

    def __init__(self, live: Sequence[Any] = ()):
        self.live = {id(one): number for number, one in enumerate(live)}
        self.arrays: list[np.ndarray] = []
        self.met: dict[int, tuple[Any, int]] = {}  # holds the arrays, whose ids must stay theirs

    def structure(self, value: Any) -> Any:
        """JSON values that stand for this value."""
        if value is None or type(value) in (bool, int, str):
            return value
        if id(value) in self.live:
            return {"live": self.live[id(value)]}
        if type(value) is float:
            return {"float": struct.pack(">d", value).hex()}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if type(value) is list:
            return [self.structure(item) for item in value]
        if type(value) in (tuple, set, frozenset):
            return {type(value).__name__: [self.structure(item) for item in value]}
        if type(value) is dict:
            pairs = [[self.structure(k), self.structure(v)] for k, v in value.items()]
            return {"dict": pairs}
        if type(value) is range:
            return {"range": [value.start, value.stop, value.step]}
        return self._array_or_record(value)

    def _array_or_record(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return {"scalar": self._number_of(np.asarray(value))}
        if isinstance(value, np.ndarray) or is_from("jax", value, "Array"):
            if isinstance(value, np.ndarray) and value.dtype.kind == "O":
                return {"objects": [list(value.shape), self.structure(value.ravel().tolist())]}
            return {"array": self._number_of(value)}
        if is_record(type(value)):
            fields = {name: self.structure(getattr(value, name)) for name in names(type(value))}
            return {"record": [type(value).__module__, type(value).__qualname__], "fields": fields}
        if is_own(type(value)):
            fields = {name: self.structure(part) for name, part in attributes(value).items()}
            return {"object": [type(value).__module__, type(value).__qualname__], "fields": fields}
        raise InputTypeError(
            f"a checkpoint cannot hold {value!r:.60}, a {type(value).__module__}."
            f"{type(value).__qualname__}: arrays, numbers, text, and records of masgrad are needed"
        )

    def _number_of(self, array: Any) -> int:
        """The number of an array, which is added unless it is there."""
        if id(array) not in self.met:
            self.met[id(array)] = array, len(self.arrays)
            self.arrays.append(np.asarray(array))
        return self.met[id(array)][1]


class _Decoder:
    """Builds values of a structure, given the arrays that it names."""

    def __init__(self, arrays: list[np.ndarray], live: Sequence[Any] = ()):
        self.arrays = arrays
        self.makers: dict[str, Callable[[Any], Any]] = {
            "float": lambda bits: struct.unpack(">d", bytes.fromhex(bits))[0],
            "bytes": bytes.fromhex,
            "tuple": lambda items: tuple(map(self.value, items)),
            "set": lambda items: set(map(self.value, items)),
            "frozenset": lambda items: frozenset(map(self.value, items)),
            "dict": lambda pairs: {self.value(k): self.value(v) for k, v in pairs},
            "range": lambda ends: range(*ends),
            "scalar": lambda number: arrays[number][()],
            "array": lambda number: arrays[number],
            "objects": self._objects,
            "live": lambda number: live[number],
        }

    def value(self, structure: Any) -> Any:
        """The value that a structure stands for."""
        if isinstance(structure, list):
            return [self.value(item) for item in structure]
        if not isinstance(structure, dict):
            return structure
        if "record" in structure:
            fields = {k: self.value(v) for k, v in structure["fields"].items()}
            return _rebuilt(class_of(structure["record"], is_record), fields)
        if "object" in structure:
            fields = {k: self.value(v) for k, v in structure["fields"].items()}
            return _with_attributes(class_of(structure["object"], is_own), fields)
        ((kind, content),) = structure.items()
        return self.makers[kind](content)

    def _objects(self, content: Any) -> np.ndarray:
        shape, items = content
        array = np.empty(len(items), object)
        array[:] = self.value(items)
        return array.reshape(shape)


def is_own(kind: type) -> bool:
    """Whether this is a class of masgrad, to be found by its name."""
    return kind.__module__.split(".")[0] == PACKAGE and "<locals>" not in kind.__qualname__


def is_record(kind: type) -> bool:
    """Whether this is a NamedTuple or a dataclass of masgrad."""
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return is_own(kind) and (named or dataclasses.is_dataclass(kind))


def names(kind: Any) -> tuple[str, ...]:
    """The fields of a record."""
    if issubclass(kind, tuple):
        return kind._fields  # pyright: ignore
    return tuple(f.name for f in dataclasses.fields(kind))


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds, but for what it has computed of that."""
    kind = type(value)
    return {
        name: part
        for name, part in vars(value).items()
        if not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def class_of(place: Sequence[str], fits: Callable[[type], bool]) -> type:
    """The class of this module and name; nothing outside masgrad is imported or found."""
    module, name = place
    found: Any = None
    if module.split(".")[0] == PACKAGE:
        try:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            found = None
    known = isinstance(found, type) and fits(found)
    if not known or (found.__module__, found.__qualname__) != (module, name):
        raise InputError(f"{module}.{name} is no record of this version of masgrad")
    return found


def _rebuilt(kind: Any, fields: dict[str, Any]) -> Any:
    """A record with these fields; its constructor, which may convert them, is not called."""
    if set(fields) != set(names(kind)):
        raise InputError(f"{kind.__qualname__} has other fields in this version of masgrad")
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [fields[name] for name in names(kind)])
    record = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(record, name, value)
    return record


def _with_attributes(kind: Any, fields: dict[str, Any]) -> Any:
    """An object with these attributes; its constructor is not called."""
    found = object.__new__(kind)
    vars(found).update(fields)
    return found
