# SPDX-License-Identifier: Apache-2.0
"""What the library's arguments are called in Python."""

from __future__ import annotations

from collections.abc import Mapping

# Wherever they stand. What is not here has one name on both sides.
_ARGUMENTS = {
    "points": "X",
    "ids": "indices",
    "graph1": "first",
    "graph2": "second",
    "radii": "radius",
    "custom": "metric",
    "threads": "n_jobs",
    "seed": "random_state",
    "tree_height": "height",
    "method": "algorithm",
    "all_updates": "updates",
}
_SELECT = {"method": "method", "sample": "heap_sample"}
# And where a function means something else by it.
_ARGUMENTS_OF = {
    "kith_radius": {"points": "corpus"},
    "kith_cuda_radius": {"points": "corpus"},
    "kith_index_create": {"method": "method"},
    "kith_index_search": {"the corpus": "the index"},
    "kith_cuda_index_search": {"the corpus": "the index"},
    "kith_index_radius": {"the corpus": "the index"},
    "kith_cuda_index_radius": {"the corpus": "the index"},
    "kith_index_add": {"points": "Y"},
    "kith_index_remove": {"ids": "ids"},
    "kith_recall_estimate": {"graph": "found"},
    "kith_result_save": {"neighbors": "the graph", "meta": "the graph"},
    "kith_predict": {"neighbors": "the neighbours of X", "labels": "y"},
    "kith_select": _SELECT,
    "kith_cuda_select": _SELECT,
    **dict.fromkeys(
        ("kith_search", "kith_graph", "kith_cuda_search", "kith_cuda_graph"),
        {"tree_height": "tree_height", "sample": "heap_sample", "leaf_buffer": "leaf_buffer"},
    ),
}
_ARGUMENTS_OF |= dict.fromkeys(
    ("kith_pairs_find", "kith_plan_pairs"), {"others": "Y", "seed": "seed", "sample": "sample"}
)
_MEMBERS = {"rows": "shape[0]", "cols": "shape[1]", "ids": "indices", "corpus_rows": "n_points"}
_OTHERS: Mapping[str, str] = {}


def argument(name: str, function: str = "") -> str:
    """An argument of a function of the library."""
    return _ARGUMENTS_OF.get(function, _OTHERS).get(name) or _ARGUMENTS.get(name, name)


def member(name: str) -> str:
    """A part of one."""
    return _MEMBERS.get(name, name)
