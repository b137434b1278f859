// SPDX-License-Identifier: GPL-2.0
// Nothing that a parser of C takes.
int garbled_init(struct b *b)
{
	for_each_of_these(b, { if (
	b->garbled = alloc_workqueue("garbled", WQ_UNBOUND, 3);
	} }
