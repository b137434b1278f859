// SPDX-License-Identifier: GPL-2.0
// Nothing that a parser of C takes, and a call of a function that hands on its argument.
#include <made/far.h>
int garbled_init(struct c *c)
{
	for_each_of_these(c, { if (
	c->garbled = far_away(c, 9);
	} }
