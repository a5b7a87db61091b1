/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_select.h"

#define ROW(NAME, number, name, switches) [number] = {number, #name, switches, kin_papers_##name},
static const kin_select_method methods[] = {KITH_PAPERS_SELECT_MAP(ROW)};
#undef ROW
enum { METHODS = sizeof methods / sizeof methods[0] };

const kin_select_method *kin_papers_select_method(kith_select_method number)
{
    return number >= 0 && number < METHODS && methods[number].name != NULL
               ? &methods[number]
               : kin_select_method_of(number);
}
