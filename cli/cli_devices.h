/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEVICES_H
#define CLI_DEVICES_H

/* Whether --device NAME can be had, or what KITH_DEVICE names where it is not given (NULL). Exit
 * code, with the reason printed. */
int cli_device_check(const char *given);

#endif
