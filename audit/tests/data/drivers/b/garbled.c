// SPDX-License-Identifier: GPL-2.0
// Nothing that a parser of C takes.
int garbled_init(struct b *b)
{
	for_each_of_these(b, { if (
	b->constant = alloc_workqueue("constant", WQ_UNBOUND, 3);
	b->garbled = alloc_workqueue("garbled", WQ_UNBOUND, three);
	} }
