/* SPDX-License-Identifier: Apache-2.0
 * Where the modules are that libkith opens when they are needed. */
#ifndef KIN_HOST_BESIDE_H
#define KIN_HOST_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file that stands in the folder of the library (or program) which this code is in,
 * as in a build folder and a Python package, or in the folder KIN_MODULE_FOLDER below it, as where
 * kith is installed. False where neither has it. */
bool kin_host_beside(const char *name, char *path, size_t size);

#endif
