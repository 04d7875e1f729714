"""The version, in one place: the package, the build and the command line read it here."""

__version__ = "0.1.0"

LIBRARIES = ("numpy", "scipy", "jax", "pyarrow")
"""Libraries of which another minor version may change digits."""


def versions() -> dict[str, str]:
    """Versions of masgrad and of the libraries that compute for it."""
    return {"masgrad": __version__} | {name: _minor(name) for name in LIBRARIES}


def _minor(library: str) -> str:
    from importlib import metadata  # which takes as long to import as some of masgrad

    try:
        return ".".join(metadata.version(library).split(".")[:2])
    except metadata.PackageNotFoundError:
        return "none"
