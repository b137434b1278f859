// SPDX-License-Identifier: GPL-2.0
/*
 * A work item that two pools execute in turn, and is looked for without the lock of the
 * one that has executed it last: a model for Spin. The names are those of
 * kernel/workqueue.c, see may_be_executing() there.
 *
 * QUEUERS queue the one item there is ROUNDS times each, for either pool. Each pool has two
 * workers. The bucket of the hash that the item is in has its worker alone; that of another
 * item would only have the lock taken, which is always right.
 *
 * Memory is as Spin has it, in order. What the work function does is one store, which may
 * come as late as the lock and the barrier allow.
 *
 * Proved: the item is never executed in two places at once, each execution finds what all
 * before have done, and when nothing can happen any more it has been executed as often as it
 * was queued. Each BREAK_* is a mistake that the verifier has to find.
 */

#ifndef QUEUERS
#define QUEUERS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define NONE	255

bool pending;
byte last_pool = NONE;
bool lock[2], bucket[2], worklist[2], scheduled[2];
byte executing, started, ended;	/* executions: under way, and so far */
byte done;			/* what work functions have stored */
byte queued;

inline take(p)
{
	atomic {
		!lock[p];
		lock[p] = true
	}
}

inline drop(p)
{
	lock[p] = false
}

proctype Worker(byte p)
{
end:
	atomic {
		(!lock[p] && worklist[p]);
		worklist[p] = false;
		if
#ifndef BREAK_NO_COLLISION
		:: bucket[p] -> scheduled[p] = true; goto end
#endif
		:: else
		fi;
#ifndef BREAK_ADDED_LATE
		bucket[p] = true;
#endif
		last_pool = p;
		pending = false
	}
#ifdef BREAK_ADDED_LATE
	bucket[p] = true;
#endif
again:
	atomic {
		executing++;
		assert(executing == 1);
		assert(done == started);
		started++
	}
	atomic {
		executing--;
		ended++
	}
#ifdef BREAK_REMOVED_UNLOCKED
	bucket[p] = false;
	done++;
	take(p);
#else
#ifdef BREAK_NO_BARRIER
	take(p);
	bucket[p] = false;
	done++;
#else
	done++;
	take(p);
	bucket[p] = false;
#endif
#endif
	if
	:: scheduled[p] ->
		atomic {
			scheduled[p] = false;
			bucket[p] = true;
			pending = false
		};
		drop(p);
		goto again
	:: else
	fi;
	drop(p);
	goto end
}

proctype Queuer()
{
	byte n = 0, p, last;
	bool seen;

	do
	:: n < ROUNDS ->
		n++;
		if
		:: p = 0
		:: p = 1
		fi;
#ifdef BREAK_LOOKED_EARLY
		last = last_pool;
		seen = (last != NONE && last != p && bucket[last]);
#endif
		atomic {
			if
			:: pending -> goto next
			:: else -> pending = true; last = last_pool
			fi
		}
#ifndef BREAK_LOOKED_EARLY
		seen = (last != NONE && last != p && bucket[last]);
#endif
#ifdef BREAK_NEVER_LOOKED
		seen = false;
#endif
		queued++;
		if
		:: seen ->
			take(last);
			if
			:: bucket[last] -> p = last
			:: else -> drop(last); take(p)
			fi
		:: else -> take(p)
		fi;
		worklist[p] = true;
		drop(p);
next:		skip
	:: else -> break
	od
}

init {
	byte n = 0;

	atomic {
		do
		:: n < 2 -> run Worker(n); run Worker(n); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < QUEUERS -> run Queuer(); n++
		:: else -> break
		od
	}
	/* nothing can happen any more */
	timeout;
	assert(ended == queued && done == queued && !pending)
}
