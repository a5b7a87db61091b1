#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Photometric redshifts.

How far away is a galaxy? Its spectrum says so, and takes a night; its brightness in a few bands
is measured for a hundred million galaxies at once. One asks those that look alike and whose
redshift is known.

With PHAT0, the catalogue of a contest of methods (`KITH_DATA`; it is not in this repository,
[examples/photo_z](../photo_z/README.md) says where it comes from), or else with galaxies that
this script makes up: spectra that fall at 400 nm by some amount and rise to the red by another,
seen through five filters at redshifts of 0.02 to 1.2, with errors of 2 %. They are no
measurement; they show how it is done.
"""

import gallery
import kith
import numpy as np

K = 10
PARTS = [
    f"phat0_{part}.fbin"
    for part in ("mag11_base", "base_redshift", "mag11_query", "query_redshift")
]


def made_up(count, seed):
    """Magnitudes in five bands, as those of the SDSS lie, and redshifts."""
    random = np.random.default_rng(seed)
    redshift = random.uniform(0.02, 1.2, (count, 1))
    slope, step = random.uniform(0.5, 3, (count, 1)), random.uniform(0.2, 1, (count, 1))
    bands = []
    for low, high in (305, 400), (380, 550), (550, 700), (680, 840), (830, 1000):
        emitted = np.linspace(low, high, 24) / (1 + redshift)  # nm, before the light was stretched
        flux = (emitted / 500) ** slope * np.where(emitted < 400, 1 - 0.8 * step, 1)
        bands.append(flux.mean(axis=1))
    bright = 10 ** random.uniform(0, 1.2, (count, 1))
    seen = np.stack(bands, 1) * bright * random.normal(1, 0.02, (count, len(bands)))
    return (20 - 2.5 * np.log10(seen)).astype(np.float32), redshift.ravel()


def load():
    base = gallery.larger_data(PARTS[0])
    if base:
        return "PHAT0", *(np.array(gallery.read(base.with_name(part))).squeeze() for part in PARTS)
    return "galaxies that were made up", *made_up(40_000, 1), *made_up(4_000, 2)


def colours_of(magnitudes):
    """Differences of neighbouring bands: what is left when distance alone is taken out."""
    return np.ascontiguousarray(-np.diff(magnitudes, axis=1))


def main():
    name, catalogue, known, queries, truth = load()
    if name != "PHAT0":  # whose galaxies are brighter where they are nearer
        catalogue, queries = colours_of(catalogue), colours_of(queries)
    distances, indices = kith.knn(catalogue, queries, k=K)
    asked, (rows, columns) = len(queries), catalogue.shape
    print(f"{name}: {asked:,} are asked for, {rows:,} are known, {columns} columns")

    weights = 1 / np.maximum(distances, 1e-6)
    found = (weights * known[indices]).sum(axis=1) / weights.sum(axis=1)
    error = (found - truth) / (1 + truth)
    middle = np.median(error)
    spread, far = 1.4826 * np.median(abs(error - middle)), (abs(error) > 0.15).mean()
    print(f"error / (1 + z): median {middle:+.4f}, NMAD {spread:.4f}, beyond 0.15: {far:.2%}")

    figure, axes = gallery.pyplot.subplots(figsize=(6.4, 5.6))
    most = float(max(truth.max(), found.max()))
    cells = axes.hexbin(
        truth, found, gridsize=90, extent=(0, most, 0, most), bins="log", mincnt=1, cmap="viridis"
    )
    axes.plot([0, most], [0, most], color="black", linewidth=0.6)
    axes.set(xlabel="true redshift", ylabel=f"of the {K} nearest", title=name)
    figure.colorbar(cells, label="galaxies in a cell")
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
