/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_names.h"

#include "kith/kith_papers.h"

const char *cli_name_metric(int metric)
{
    return kith_metric_name((kith_metric)metric);
}

const char *cli_name_method(int method)
{
    static const char *const names[] = {[KITH_METHOD_AUTO] = "auto",
                                        [KITH_METHOD_EXACT] = "exact",
                                        [KITH_METHOD_TREE] = "tree",
                                        [KITH_METHOD_DESCENT] = "descent"};
    return names[method];
}

const char *cli_name_pipeline(int pipeline)
{
#define ROW(NAME, number, name) [number] = #name,
    static const char *const names[] = {[KITH_PIPELINE_FUSED] = "fused",
                                        KITH_PAPERS_PIPELINE_MAP(ROW)};
#undef ROW
    return names[pipeline];
}

const char *cli_name_select(int method)
{
    return kith_select_method_name((kith_select_method)method);
}

const char *cli_name_buffer(int buffer)
{
    static const char *const names[] = {[KITH_BUFFER_NONE] = "none",
                                        [KITH_BUFFER_PLAIN] = "plain",
                                        [KITH_BUFFER_FULL] = "full",
                                        [KITH_BUFFER_SORTED] = "sorted"};
    return names[buffer];
}

const char *cli_name_mode(int mode)
{
    return kith_predict_mode_name((kith_predict_mode)mode);
}

const char *cli_name_symmetry(int symmetry)
{
    return symmetry == KITH_SYMMETRY_UNION ? "union" : "mutual";
}

const char *cli_name_start(int start)
{
    static const char *const names[] = {[KITH_START_AUTO] = "auto",
                                        [KITH_START_RANDOM] = "random",
                                        [KITH_START_SCREEN] = "screen",
                                        [KITH_START_GRAPH] = "graph"};
    return names[start];
}

const char *cli_name_updates(int updates)
{
    static const char *const names[] = {"nearest", "auto", "all"};
    return names[updates];
}

const char *cli_name_header(int header)
{
    return header == KITH_HEADER_YES ? "yes" : "no";
}
