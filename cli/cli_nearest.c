/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_nearest.h"

enum { WORD_MAX = 32 };

static int length(const char *word)
{
    int n = 0;
    while (n < WORD_MAX && word[n] != '\0') {
        n++;
    }
    return n;
}

static int least(int a, int b, int c)
{
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein's table, one row at a time. */
int cli_nearest_distance(const char *a, const char *b)
{
    const int a_length = length(a);
    const int b_length = length(b);
    int row[WORD_MAX + 1];
    for (int j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (int i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            const int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[b_length];
}
