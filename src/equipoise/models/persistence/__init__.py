"""A saved model is one file: written whole or not at all, verified before use, no pickle.

The file is a zip without compression: one ``.npy`` per array (ids of mixed types as JSON) and a
``manifest.json`` with the sha256, size, dtype and shape of each. Entries are sorted and carry a
fixed date, so equal models are equal bytes.
"""

from equipoise.models.persistence.format import FORMAT, FORMAT_VERSION, Artefact, JSONValue
from equipoise.models.persistence.reading import read_artefact
from equipoise.models.persistence.writing import write_artefact

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Artefact",
    "JSONValue",
    "read_artefact",
    "write_artefact",
]
