# SPDX-License-Identifier: Apache-2.0
"""The library's sentences in the words of Python: there its arguments have other names."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What a sentence is about, wherever it is said. What is not here has one name on both sides.
_NAMES = {
    "points": "X",
    "ids": "indices",
    "graph1": "first",
    "graph2": "second",
    "radii": "radius",
    "threads": "n_jobs",
    "seed": "random_state",
    "tree_height": "height",
}
# And where a function of the library means something else by it.
_NAMES_OF = {
    "kith_radius": {"points": "corpus"},
    "kith_walks_search": {"points": "the index"},
    "kith_recall_estimate": {"graph": "found", "the graph": "found"},
    "kith_result_save": {"neighbors": "the graph", "meta.corpus_rows": "n_points"},
}
# Parts of sentences: what to do is said in Python, too.
_PARTS = (
    (".rows is ", ".shape[0] is "),
    (".cols is ", ".shape[1] is "),
    ("points are ", "rows of X are "),
    ("method is tree", "algorithm is kd_tree"),
    ("use exact)", "use brute)"),
    ("use auto or exact)", "use auto or brute)"),
    ("metric is custom", "metric is a function"),
    ("the caller's own function", "a function of Python"),
    ("custom gave NaN", "metric gave NaN"),
    ("(or 0: by k)", "(or None: by k)"),
    ("(or 0: by k, or by a recall)", "(or None: by k)"),
    ("the walks on ", "the index of "),
    (" were prepared for ", " was prepared for "),
    ("kith_walks_params.queries", "query_dtype"),
    (
        "make one of its points: kith tree build, kith_corpus_create_with",
        "make a kith.Tree of them",
    ),
    ("make one with kith_corpus_save", "make one with kith.Corpus.save"),
    ("give the corpus_rows that they belong to", "give n_points, the rows of their corpus"),
)
_PARTS_OF = {
    "kith_predict": (
        ("of neighbors has nobody", "of X has no neighbour"),
        ("mode weighted_vote divides", "weights='distance' divides"),
        ("mode weighted divides", "weights='distance' divides"),
        ("the distance of neighbors[", "the distance of neighbours["),
    ),
    "kith_corpus_create_with": (
        ("method is tree and the metric", "a Tree is wanted and the metric"),
        ("or use exact)", "or make a kith.Corpus)"),
    ),
}
_SUBJECT = re.compile(
    r"(^| and )((?:the )?[a-z][\w.]*?)(?=\[\d+(?:, \d+)?\] |\.shape\[| (?:is|are|has|was|name) )"
)

# Memory is asked for by the names that arrays have inside.
_ABOVE_LIMIT = re.compile(
    r"^.* needs (\d+) bytes more than the (\d+) in use, above the memory limit of (\d+) bytes "
    r"\(raise the limit,"
)
_NO_MEMORY = re.compile(r"\bno (memory|room) for [^,:(]*[,:] (?=\d+ bytes)")


def _of_memory(text: str) -> str:
    """A sentence about memory, in what a caller knows."""
    text = _ABOVE_LIMIT.sub(
        lambda found: (
            f"the call takes {int(found[1]) + int(found[2])} bytes or more, above memory_limit, "
            f"which is {found[3]} (raise it,"
        ),
        text,
    )
    return _NO_MEMORY.sub(r"no \1 for ", text)


def in_python(text: str, function: str = "") -> str:
    """A sentence of a function of the library."""
    for given, said in (*_PARTS_OF.get(function, ()), *_PARTS):
        text = text.replace(given, said)
    return renamed(_of_memory(text), {**_NAMES, **_NAMES_OF.get(function, {})})


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A sentence about arguments that have other names."""
    return _SUBJECT.sub(lambda found: found[1] + names.get(found[2], found[2]), text)
