# SPDX-License-Identifier: Apache-2.0
"""Pictures of a graph, drawn by Matplotlib: ``python -m kith.plot GRAPH POINTS``.

>>> import numpy as np, kith
>>> from kith.plot import plot
>>> X = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
>>> figure = plot(kith.knn_graph(X, k=15), X)  # doctest: +SKIP
>>> figure.savefig("graph.svg")  # doctest: +SKIP
"""

from __future__ import annotations

import argparse
import ctypes as c
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _structs as s
from ._arrays import HostMatrix, as_matrix, refuse_not_finite
from ._context import Context, settings
from ._graph import Graph, Path
from ._imports import needed
from ._library import lib
from ._mixed import numbers, stored
from ._options import path as encoded
from ._results import Array, Fingerprint, narrow
from ._search import fingerprint
from ._typing import Pair, Points

Drawn = Graph | Pair

_ENDINGS = (".png", ".svg")
_HEADERS = {"yes": 1, "no": 2}  # kith_header
_DRAWN_POINTS = 20_000
_DRAWN_EDGES = 50_000
_FITTED_ROWS = 1_000
_FITTED_VALUES = 1 << 24
_INK, _OTHER = "#2c6fbb", "#c0392b"

_EXAMPLES = """\
examples:
  kith graph points.npy -k 15 -o graph.npz
  python -m kith.plot graph.npz points.npy                 # draws graph.png
  python -m kith.plot graph.kith points.csv -o graph.svg   # in another format
  python -m kith.plot graph.npz                            # without the layout
"""

# ---- What is drawn -------------------------------------------------------------------------------


def in_degrees(graph: Drawn) -> Array:
    """In how many lists of a graph each of its points is."""
    ids = _graph_of(graph)._ids
    return np.bincount(ids[ids != s.ID_NONE], minlength=len(ids))


def components(graph: Drawn) -> Array:
    """Of each point, the smallest number of a point that it is joined to, whichever way edges go."""
    made = _graph_of(graph)
    rows, cols, _ = made._edges(None)
    least = np.arange(len(made))
    while True:
        # Whoever leads both ends of an edge, the smaller leads the larger; then all follow up.
        before = least.copy()
        ends = before[rows], before[cols]
        np.minimum.at(least, ends[0], ends[1])
        np.minimum.at(least, ends[1], ends[0])
        while not np.array_equal(least, least[least]):
            least = least[least]
        if np.array_equal(least, before):
            return least


def layout(points: Points) -> tuple[Array, str]:
    """Places in the plane, and what they are: two columns as they are, of others those directions in
    which the points differ most (PCA; of many rows some decide the directions)."""
    return _layout(as_matrix(points, "points"))


def _layout(points: HostMatrix) -> tuple[Array, str]:
    values = numbers(points.array, points.struct.dtype)
    rows, cols = values.shape
    if cols == 2:
        places = values.astype(np.float64)
        what = "the two columns"
    else:
        most = max(2, min(_FITTED_ROWS, _FITTED_VALUES // cols))
        some = _finite(values[_spread(rows, most)].astype(np.float64), values)
        middle = some.mean(axis=0)
        _, lengths, axes = np.linalg.svd(some - middle, full_matrices=False)
        axes = axes[:2] * np.where(axes[:2].sum(axis=1) < 0, -1, 1)[:, None]
        places = np.zeros((rows, 2))
        for part in np.array_split(np.arange(rows), max(1, rows * cols // _FITTED_VALUES)):
            places[part, : len(axes)] = (values[part] - middle) @ axes.T
        told = (lengths[:2] ** 2).sum() / max((lengths**2).sum(), np.finfo(float).tiny)
        what = f"PCA of {cols:,} column{'s' if cols > 1 else ''}, {told:.0%} of the variance"
    return _finite(places, values), what


def _finite(made: Array, values: Array) -> Array:
    """What was made of values, all of which are numbers."""
    if not np.isfinite(made).all():
        refuse_not_finite(values, "points")
    return made


def plot(graph: Drawn, points: Points | None = None, *, title: str | None = None) -> Any:
    """Draws a graph of one set of points: in how many lists points are, how far neighbours are, how
    large the parts are that no edge joins, and, with its points, where they lie.

    Parameters
    ----------
    graph : kith.Graph, kith.Neighbors or (distances, indices)
    points : array of shape (n, d), optional
        Those that the graph is of. Two columns are drawn as they are, more by PCA.
    title : str, optional
        Above all; unless given what the graph knows of itself.

    Returns
    -------
    matplotlib.figure.Figure
        ``savefig`` writes it; notebooks show it.
    """
    return _figure(_graph_of(graph), None if points is None else as_matrix(points, "points"), title)


def _matplotlib(part: str = "") -> Any:
    return needed(f"matplotlib.{part}" if part else "matplotlib", "kith.plot")


def _figure(made: Graph, points: HostMatrix | None, title: str | None) -> Any:
    if points is not None:
        _check_points(made, points)
    panels = [_draw_degrees, _draw_distances, _draw_components]
    figure = _matplotlib("figure").Figure(
        figsize=(11, 9) if points is not None else (13, 4.2), layout="constrained"
    )
    axes = figure.subplots(*((2, 2) if points is not None else (1, 3))).ravel()
    figure.suptitle(title if title is not None else _title_of(made), fontsize=11)
    for panel, axis in zip(panels, axes, strict=False):
        panel(axis, made)
    if points is not None:
        _draw_layout(axes[3], made, points)
    return figure


def _graph_of(graph: Drawn) -> Graph:
    made = graph if isinstance(graph, Graph) else _named(graph)
    most = int(made._ids.max(initial=0, where=made._ids != s.ID_NONE))
    if max(made.n_points, most + 1) != len(made):
        raise ValueError(
            f"the lists are of {len(made):,} queries among {max(made.n_points, most + 1):,} points "
            "(give a graph of one set of points)"
        )
    return made


def _named(pair: Pair) -> Graph:
    """A graph of arrays, whose metric may not be known."""
    _, (distances, ids, known) = narrow(pair, "graph")
    made = Graph.__new__(Graph)
    exact = {s.CERTIFIED: True, s.APPROXIMATE: False}.get(known.exact)
    points = Fingerprint.of_struct(known.points)
    rows = len(ids) if points is None else points.rows
    made._hold(ids, distances, known.metric, rows, exact, points)
    return made


def _check_points(graph: Graph, points: HostMatrix) -> None:
    if points.rows != len(graph):
        raise ValueError(
            f"the graph is of {len(graph):,} points, and {points.rows:,} are given (give those that "
            "it is of)"
        )
    these = None if graph.fingerprint is None else fingerprint(points.struct, settings())
    if these != graph.fingerprint:
        raise ValueError(
            f"the graph is of points {graph.fingerprint}, and {these} are given (give those that it "
            "is of)"
        )


def _title_of(graph: Graph) -> str:
    exact = {True: "exact", False: "approximate", None: "not known whether exact"}[graph.exact]
    metric = graph.metric or "metric not known"
    return f"{len(graph):,} points, {graph.shape[1]} nearest neighbours each ({metric}, {exact})"


def _spread(rows: int, most: int) -> Array:
    """Numbers of rows, evenly."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))


def _draw_degrees(axis: Any, graph: Graph) -> None:
    degrees = in_degrees(graph)
    most = int(degrees.max(initial=0))
    step = max(1, most // 60)
    axis.hist(degrees, bins=np.arange(-0.5, most + step, step), color=_INK)
    axis.set_yscale("log")
    axis.set_xlabel("lists that a point is in")
    axis.set_ylabel("points")
    axis.set_title(f"In-degree: at most {most:,}; {(degrees == 0).sum():,} points in no list")


def _draw_distances(axis: Any, graph: Graph) -> None:
    there = np.isfinite(graph.distances)
    axis.set_xlabel(f"distance ({graph.metric or 'metric not known'})")
    axis.set_ylabel("points")
    axis.set_title("Distance of the nearest and of the last neighbour")
    if not there.any():
        axis.text(0.5, 0.5, "the graph has no distances", ha="center", transform=axis.transAxes)
        return
    last = graph.distances.shape[1] - 1
    low, high = (float(edge(graph.distances[there])) for edge in (np.min, np.max))
    bins = np.linspace(low, high if high > low else low + 1, 61)
    for place, colour in {0: _INK, last: _OTHER}.items():
        values = graph.distances[there[:, place], place]
        axis.hist(values, bins, color=colour, alpha=0.6, label=f"neighbour {place + 1}")
    axis.legend(frameon=False)


def _draw_components(axis: Any, graph: Graph) -> None:
    sizes = np.unique(components(graph), return_counts=True)[1]
    bins = np.geomspace(0.75, len(graph) * 1.5, 40)
    axis.hist(sizes, bins, color=_INK)
    axis.set_xscale("log")
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel("points of a part that no edge joins to another")
    axis.set_ylabel("parts")
    parts = "1 part" if len(sizes) == 1 else f"{len(sizes):,} parts"
    axis.set_title(f"Components: {parts}, the largest of {sizes.max(initial=0):,} points")


def _draw_layout(axis: Any, graph: Graph, points: HostMatrix) -> None:
    places, what = _layout(points)
    shown = _spread(len(places), _DRAWN_POINTS)
    drawn = np.zeros(len(places), bool)
    drawn[shown] = True
    rows, cols, _ = graph._edges(None)
    both = np.flatnonzero(drawn[rows] & drawn[cols])
    edges = both[_spread(len(both), _DRAWN_EDGES)] if both.size else both
    lines: Any = np.stack([places[rows[edges]], places[cols[edges]]], axis=1)
    axis.add_collection(
        _matplotlib("collections").LineCollection(
            lines, colors="#888888", linewidths=0.3, alpha=0.3, zorder=0
        )
    )
    size = float(np.clip(20_000 / max(len(shown), 1), 1, 30))
    marks = axis.scatter(*places[shown].T, c=in_degrees(graph)[shown], s=size, linewidths=0)
    axis.figure.colorbar(marks, ax=axis, label="in-degree", shrink=0.8)
    axis.set_aspect("equal", adjustable="datalim")
    some = "" if len(shown) == len(places) else f"; {len(shown):,} of the points"
    axis.set_title(f"Points: {what}{some}")


# ---- The command ---------------------------------------------------------------------------------


def _read_points(path: Path, header: str | None, columns: str | None) -> tuple[HostMatrix, Any]:
    """The points of a file in any format that kith reads, and who keeps them."""
    params = s.sized(s.PointsParams, header=_HEADERS.get(header or "", 0))
    params.columns = None if columns is None else encoded(columns)
    file = encoded(path)
    made = Context(settings()).make(
        lib.kith_points_free, None, lib.kith_points_open, file, c.byref(params)
    )
    matrix = lib.kith_points_matrix(made).contents
    return HostMatrix(matrix, stored(matrix), matrix.rows, matrix.dtype == s.F64, 0), made


def _write(figure: Any, path: pathlib.Path) -> None:
    """Whole or not at all, and the same bytes for the same picture."""
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(half, "xb") as file, _matplotlib().rc_context({"svg.hashsalt": "kith"}):
            kind = path.suffix[1:].lower()
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(file, format=kind, dpi=150, metadata=metadata)
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)


def _check_output(path: pathlib.Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder (give the name of a file in it)")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: {path.parent} is no folder (make the folder first)")


def _draw(asked: argparse.Namespace, output: pathlib.Path) -> None:
    with Graph.map(asked.graph) as graph:
        points, owner = None, None
        if asked.points is not None:
            points, owner = _read_points(asked.points, asked.header, asked.columns)
        where = asked.graph
        try:
            drawn = _graph_of(graph)
            where = asked.points or where
            figure = _figure(drawn, points, asked.title)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        _write(figure, output)
        del owner  # until here its points were drawn


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kith.plot",
        description="Draws a graph: in-degrees, distances, components and, with its points, a layout.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("graph", metavar="GRAPH", help="a graph in any format that kith reads")
    parser.add_argument(
        "points", metavar="POINTS", nargs="?", help="the points that it is of; two columns, or PCA"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=".png or .svg (default: GRAPH's name with .png)"
    )
    parser.add_argument("--title", metavar="TEXT", help="above all (default: what the graph says)")
    parser.add_argument(
        "--header", choices=_HEADERS, help="of POINTS as text: whether line 1 names the columns"
    )
    parser.add_argument(
        "--columns", metavar="LIST", help="of POINTS as text: 1,4-6,9-,NAME, counted from 0"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    output = pathlib.Path(asked.output or pathlib.Path(asked.graph).with_suffix(".png"))
    if output.suffix.lower() not in _ENDINGS:
        parser.error(f"{output}: its ending is no format of a picture (use one of .png .svg)")
    if asked.points is None and (asked.header or asked.columns):
        parser.error("--header and --columns say how POINTS are read, and there are none")
    try:
        _matplotlib()  # before anything is read
        _check_output(output)
        _draw(asked, output)
    except KeyboardInterrupt:
        return 130
    except (ImportError, MemoryError, OSError, ValueError, NotImplementedError) as error:
        print(f"kith.plot: {error}", file=sys.stderr)
        return 1
    print(f"output: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
