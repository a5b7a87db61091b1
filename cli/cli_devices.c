/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_devices.h"
#include "cli.h"
#include "cli_json.h"
#include "cli_message.h"
#include "cli_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool get(int32_t index, kith_device *device)
{
    memset(device, 0, sizeof *device);
    device->struct_size = (uint32_t)sizeof *device;
    return kith_device_get(index, device) == KITH_OK;
}

/* "cuda" means every GPU, of which the first that can be used is taken; so does the entry "cuda" of
 * kith devices, which stands for all that are not there. */
static bool meant(const char *name, const char *device)
{
    if (strcmp(name, "cuda") == 0 || strcmp(name, "cuda:all") == 0 || strcmp(device, "cuda") == 0) {
        return strncmp(device, "cuda", 4) == 0;
    }
    return strcmp(name, device) == 0;
}

/* The reason has its own way out in brackets, mostly; the processor is always one. */
static int refuse(const char *where, const char *reason)
{
    const size_t length = strlen(reason);
    if (length > 0 && reason[length - 1] == ')') {
        return cli_fail(where, "%.*s; or use --device cpu)", (int)length - 1, reason);
    }
    return cli_fail(where, "%s (use --device cpu)", reason);
}

static int check_one(const char *where, const char *name)
{
    kith_device refused = {0};
    for (int32_t i = 0; i < kith_device_count(); i++) {
        kith_device device;
        if (get(i, &device) && meant(name, device.name)) {
            if (device.available != 0) {
                return CLI_DONE;
            }
            refused = device;
        }
    }
    return refused.text[0] != '\0'
               ? refuse(where, refused.text)
               : cli_fail(where, "there is no such device (kith devices lists what there is; use "
                                 "--device cpu)");
}

int cli_device_check(const char *given)
{
    const char *name = given != NULL ? given : getenv("KITH_DEVICE");
    const char *where = given != NULL ? given : "KITH_DEVICE";
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0) {
        return CLI_DONE;
    }
    if (!cli_value_is_device(name)) {
        return cli_fail(
            where, "'%s' is no device (use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all)", name);
    }
    if (strchr(name, ',') == NULL) {
        return check_one(where, name);
    }
    int code = CLI_DONE;
    for (const char *at = name + strlen("cuda:"); *at != '\0' && code == CLI_DONE;) {
        char one[16];
        const size_t digits = strcspn(at, ",");
        (void)snprintf(one, sizeof one, "cuda:%.*s", (int)digits, at);
        code = check_one(where, one);
        at += digits + (at[digits] == ',' ? 1 : 0);
    }
    return code;
}

static void print_json(void)
{
    cli_json json;
    cli_json_begin(&json, "devices");
    cli_json_open_array(&json, "devices");
    for (int32_t i = 0; i < kith_device_count(); i++) {
        kith_device device;
        if (get(i, &device)) {
            cli_json_open(&json, NULL);
            cli_json_text(&json, "name", device.name);
            cli_json_bool(&json, "available", device.available != 0);
            cli_json_text(&json, "text", device.text);
            cli_json_close(&json);
        }
    }
    cli_json_close_array(&json);
    cli_json_end(&json);
}

int cli_devices(const cli_args *args)
{
    if (cli_given(args, CLI_OPT_JSON)) {
        print_json();
        return CLI_DONE;
    }
    for (int32_t i = 0; i < kith_device_count(); i++) {
        kith_device device;
        if (get(i, &device)) {
            (void)printf("%s: %s\n", device.name, device.text);
        }
    }
    return CLI_DONE;
}
