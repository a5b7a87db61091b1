/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_seconds.h"

#include "cli_clock.h"
#include "cli_message.h"

void cli_seconds_print(const cli_step *steps, double start, bool verbose)
{
    const double total = cli_clock_now() - start;
    (void)printf("seconds: ");
    for (; verbose && steps->name != NULL; steps++) {
        (void)printf("%s %.3f, ", steps->name, steps->seconds);
    }
    (void)printf("%s%.3f\n", verbose ? "total " : "", total);
}

void cli_seconds_put(const cli_step *steps, double start, cli_json *json)
{
    cli_json_open(json, "seconds");
    cli_json_number(json, "total", cli_clock_now() - start);
    for (; steps->name != NULL; steps++) {
        cli_json_number(json, steps->name, steps->seconds);
    }
    cli_json_close(json);
}

void cli_peak_print(uint64_t gpu_bytes)
{
    char size[CLI_SIZE_BYTES];
    (void)printf("peak memory: %s\n", cli_message_size(cli_clock_peak_bytes(), size));
    if (gpu_bytes > 0) {
        (void)printf("peak gpu memory: %s\n", cli_message_size(gpu_bytes, size));
    }
}

void cli_peak_put(uint64_t gpu_bytes, cli_json *json)
{
    cli_json_open(json, "peak_bytes");
    cli_json_uint(json, "host", cli_clock_peak_bytes());
    cli_json_uint(json, "gpu", gpu_bytes);
    cli_json_close(json);
}
