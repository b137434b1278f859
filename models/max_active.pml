// SPDX-License-Identifier: GPL-2.0
/*
 * How an unbound workqueue keeps its max_active exact: a model for Spin.
 *
 * Three nodes and four pwqs, each on a pool of its own: pwqs 0 and 1 are on node 0,
 * pwq 2 on node 1, pwq 3 on node 2; with NO_NODE a fifth one on the entry for pools
 * without a node. CPUS processes queue, complete and cancel items of any pwq, in any
 * order and at any time, so as many of these overlap. With LIMITS, another process sets
 * max_active that many times, to any value from 0 (freezing) to MAX and at last to MAX.
 * With RELEASE, pwq 0 goes away once it has no items. With ORDERED, too, and pwq 2,
 * where items go when all of pwq 0 have been queued, is plugged until then.
 *
 * wq->active_lock, A here, nests inside pool locks. It protects nr_spare, spread, max,
 * the used nodes and who waits. A pwq's counts are protected by its pool's lock. That a
 * pwq is pending is written under both, but for one without references, where A
 * suffices. Release reads it with no lock held, the one such access to plain data.
 *
 * What is changed without A is a node's nr_free: free slots that the node holds, or
 * CLOSED. This is done by atomic operations on that one word, each a single step. They
 * may fail for a value that they read too late: at any time a node's free slots can be
 * missed, but for a CPU that holds A and puts one back, which knows if the node is open.
 * The store that opens a node is a plain one, under A. It goes through a store buffer
 * that gets empty in any order (TSO and weaker), before A is released.
 *
 * What nobody else can see is merged into one step: code under A that touches no nr_free
 * and no other lock, and code under a pool's lock before it takes A.
 *
 * When nobody waits, spare slots are spread over the nodes or not, freely. So what is
 * proved holds for every threshold.
 *
 * Each BREAK_* is a mistake that the verifier has to find.
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef MAX
#define MAX 2
#endif
#ifndef ITEMS
#define ITEMS 2, 1, 1, 1	/* how many of each pwq */
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef LIMITS
#define LIMITS 0
#endif
#ifdef ORDERED
#define RELEASE
#endif

#define CLOSED	(-1)
#define NODE(p)	((p) <= 1 -> 0 : (p) - 1)

#ifdef NO_NODE
#define NODES	4
#define PWQS	5
#define ALL_NODES(ok)	(ok(0) && ok(1) && ok(2) && ok(3))
#define ALL_PWQS(ok)	(ok(0) && ok(1) && ok(2) && ok(3) && ok(4))
#define SUM_NODES(nr)	(nr(0) + nr(1) + nr(2) + nr(3))
#define SUM_PWQS(nr)	(nr(0) + nr(1) + nr(2) + nr(3) + nr(4))
#define PICK(can) \
	if :: can(0) -> p = 0 :: can(1) -> p = 1 :: can(2) -> p = 2 :: can(3) -> p = 3 \
	:: can(4) -> p = 4 fi
#else
#define NODES	3
#define PWQS	4
#define ALL_NODES(ok)	(ok(0) && ok(1) && ok(2))
#define ALL_PWQS(ok)	(ok(0) && ok(1) && ok(2) && ok(3))
#define SUM_NODES(nr)	(nr(0) + nr(1) + nr(2))
#define SUM_PWQS(nr)	(nr(0) + nr(1) + nr(2) + nr(3))
#define PICK(can) \
	if :: can(0) -> p = 0 :: can(1) -> p = 1 :: can(2) -> p = 2 :: can(3) -> p = 3 fi
#endif
#define NO_POOL	PWQS

/* Under A. */
bool A;
short nr_spare = MAX;
byte max = MAX;
bool spread;
byte nr_used;
bool used[NODES];
chan waiting_nodes = [NODES] of { byte };
chan pending_pwqs[NODES] = [2] of { byte };

/* Atomic words, and the stores to them that cannot be seen yet. */
short nr_free[NODES] = CLOSED;
chan buffer = [NODES] of { byte, short };

/* Under the pool's lock; pending under A too. */
bool pool[PWQS];
bool pending[PWQS];
bool plugged[PWQS];
byte nr_inactive[PWQS];
byte nr_running[PWQS];
byte refcnt[PWQS];	/* items that are not done yet */
bool released[PWQS];	/* no items may come */

/* What is left to do. */
byte items[PWQS] = { ITEMS };
byte cancels = CANCELS;

/* For the proof only. */
byte nr_active;		/* slots in use */
byte coming;		/* those who dropped A on their way to hand out a slot */
bool filling;		/* whoever set max_active will hand out all */
bool freed[PWQS];
byte passed[NODES];	/* slots that others got while this node waits */
bool set_up;

#define LEFT(p)		items[p]
#define REFS(p)		refcnt[p]
#define FREE(n)		(nr_free[n] > 0 -> nr_free[n] : 0)
#define WAITING(p)	(pending[p] -> nr_inactive[p] : 0)

#ifdef ORDERED
#define IN_ORDER(p)	(p == 0 || items[0] == 0)
#else
#define IN_ORDER(p)	true
#endif
#define CAN_QUEUE(p)	(items[p] && !pool[p] && !released[p] && IN_ORDER(p))
#define CAN_COMPLETE(p)	(nr_running[p] && !pool[p])
#define CAN_CANCEL(p)	(cancels && nr_inactive[p] && !pool[p])

#define PWQ_LINKED(p)	(pool[p] || nr_inactive[p] == 0 || pending[p] || plugged[p])
#define NODE_LINKED(n)	(waiting_nodes ?? [n] -> len(pending_pwqs[n]) > 0 : \
						 len(pending_pwqs[n]) == 0)
#define NODE_OPEN(n)	(nr_free[n] == CLOSED || (used[n] && spread && nr_free[n] >= 0))
#define NODE_PASSED(n)	(passed[n] < NODES)

/* What is true whenever A is free. */
#define SLOTS_ADD_UP	(nr_active + nr_spare + SUM_NODES(FREE) == max)
#define NONE_FORGOTTEN	(filling || SUM_PWQS(WAITING) == 0 || \
			 (nr_spare <= coming && SUM_NODES(FREE) == 0))
#define SPREAD_IF_FREE	(!spread || (nr_spare == 0 && len(waiting_nodes) == 0))
#define ALL_OPEN	ALL_NODES(NODE_OPEN)
#define ALL_LINKED	(ALL_PWQS(PWQ_LINKED) && ALL_NODES(NODE_LINKED))

#ifndef NO_MONITOR
/* Blocked for ever if that is so, and then adds no states. */
active proctype monitor()
{
end:
	atomic {
		!A && set_up && !(SLOTS_ADD_UP && NONE_FORGOTTEN && SPREAD_IF_FREE &&
				  ALL_OPEN && ALL_LINKED) ->
		assert(SLOTS_ADD_UP);
		assert(NONE_FORGOTTEN);
		assert(SPREAD_IF_FREE);
		assert(ALL_OPEN);
		assert(ALL_LINKED)
	}
}
#endif

/* The store buffer of the CPU that holds A. */
active proctype store_buffer()
{
	short f;
end:
	do
	:: atomic { buffer ?? 0, f -> nr_free[0] = f; f = 0 }
	:: atomic { buffer ?? 1, f -> nr_free[1] = f; f = 0 }
	:: atomic { buffer ?? 2, f -> nr_free[2] = f; f = 0 }
#ifdef NO_NODE
	:: atomic { buffer ?? 3, f -> nr_free[3] = f; f = 0 }
#endif
	od
}

/* An item of p starts. Nodes other than p's that wait have been passed once more. */
inline start(p)
{
	assert(nr_active < max);
#ifdef ORDERED
	assert(p == 0 || refcnt[0] == 0);
#endif
	nr_active++;
	nr_running[p]++;
	passed[0] = (NODE(p) != 0 && waiting_nodes ?? [0] -> passed[0] + 1 : 0);
	passed[1] = (NODE(p) != 1 && waiting_nodes ?? [1] -> passed[1] + 1 : 0);
	passed[2] = (NODE(p) != 2 && waiting_nodes ?? [2] -> passed[2] + 1 : 0);
#ifdef NO_NODE
	passed[3] = (NODE(p) != 3 && waiting_nodes ?? [3] -> passed[3] + 1 : 0);
#endif
	assert(ALL_NODES(NODE_PASSED))
}

inline lock_A()
{
	!A -> A = true
}

inline set_pending(p)
{
	pending[p] = true;
	pending_pwqs[NODE(p)] ! p;
	if
	:: waiting_nodes ?? [eval(NODE(p))]
	:: else -> waiting_nodes ! NODE(p)
	fi
}

/* Harmless if p is not pending. */
inline clear_pending(p)
{
	if
	:: pending[p] ->
		pending[p] = false;
		pending_pwqs[NODE(p)] ?? eval(p);
		if
		:: len(pending_pwqs[NODE(p)]) == 0 ->
			waiting_nodes ?? eval(NODE(p));
			passed[NODE(p)] = 0
		:: else
		fi
	:: else
	fi
}

/* Under A: takes all free slots from the nodes. */
inline collect()
{
	if
	:: spread ->
		do
		:: atomic { i < NODES ->
			f = nr_free[i];
#ifdef BREAK_COLLECT_IN_TWO
			}
			atomic { true ->
#endif
			nr_free[i] = CLOSED;
#ifdef BREAK_COLLECT_CLOSED
			nr_spare = nr_spare + (used[i] -> f : 0);
#else
			nr_spare = nr_spare + (f > 0 -> f : 0);
#endif
			f = 0;
			i++ }
		:: atomic { else -> i = 0; spread = false; break }
		od
	:: else
	fi
}

/* Under A, nobody waits: the used nodes get the spare slots. A is released. */
inline spread_and_unlock_A(n)
{
	atomic {
		for (i : 0 .. NODES - 1) {
			if
			:: used[i] ->
				buffer ! i, nr_spare / nr_used + (i == n -> nr_spare % nr_used : 0)
			:: else
			fi
		}
		i = 0;
		nr_spare = 0;
		spread = true
	}
#ifndef BREAK_UNLOCK_WITHOUT_RELEASE
	empty(buffer);
#endif
	A = false
}

#define NO	0
#define YES	1
#define ASK	2

/* With p's pool locked: gets a slot of p's node, or tells to ask for one under A. */
inline get_local(p)
{
	if
	:: plugged[p] || pending[p] -> got = NO
	:: else ->
		if
		:: nr_free[NODE(p)] > 0 ->
			nr_free[NODE(p)]--;
			start(p);
			got = YES
		:: got = ASK
		fi
	fi
}

/* With p's pool locked: gets a slot of any node, or p is pending. */
inline get_any(p)
{
	atomic {
		lock_A();
		if
		:: !used[NODE(p)] -> used[NODE(p)] = true; nr_used++
		:: else
		fi;
		if
		:: nr_free[NODE(p)] > 0 ->
			nr_free[NODE(p)]--;
			start(p);
			got = YES;
			A = false
		:: true
		fi
	}
	if
	:: got == YES
	:: else ->
#ifndef BREAK_WAITER_DOES_NOT_COLLECT
		collect();
#endif
		if
		:: atomic {
#if defined(BREAK_JUMP_THE_LINE)
			nr_spare > 0 ->
#elif defined(BREAK_PASS_OWN_PWQ)
			nr_spare > 0 && (len(waiting_nodes) == 0 || pending[p]) ->
#else
			nr_spare > 0 && len(waiting_nodes) == 0 ->
#endif
			nr_spare--;
			start(p);
			got = YES }
			if
			:: nr_spare > 0 && len(waiting_nodes) == 0 -> spread_and_unlock_A(NODE(p))
			:: A = false
			fi
		:: atomic { else ->
#ifdef BREAK_PASS_OWN_PWQ
			if
			:: pending[p]
			:: else -> set_pending(p)
			fi;
#else
			set_pending(p);
#endif
			got = NO;
			A = false }
		fi
	fi
}

/*
 * A is held, and caller's pool unless it is NO_POOL. Gives a spare slot to a pwq that
 * waits, unless there is none of either. A is released, caller's pool is held again.
 */
inline hand_out(caller)
{
	locked = caller;
retry:
	atomic {
		if
		:: nr_spare <= 0 || len(waiting_nodes) == 0 ->
			got = NO;
#if LIMITS
			filling = filling && caller != NO_POOL;
#endif
			goto unlock
		:: else
		fi;
		waiting_nodes ? <n>;
		pending_pwqs[n] ? <q>;
		assert(!freed[q]);
		if
		:: q == locked -> goto activate
		:: q != locked && locked == NO_POOL
		:: else -> pool[locked] = false
		fi;
		locked = q
	}
	atomic {
		if
		:: !pool[q] -> pool[q] = true
		:: else -> A = false; coming = coming + (caller != NO_POOL); goto dance
		fi;
activate:
		assert(!freed[q]);
		if
		:: nr_inactive[q] == 0 ->
#ifndef BREAK_EMPTY_PWQ_STAYS_PENDING
			clear_pending(q);
#endif
			goto retry
		:: else
		fi;
		nr_spare--;
		start(q);
		nr_inactive[q]--;
		clear_pending(q);
		if
		:: nr_inactive[q] > 0 -> set_pending(q)
		:: else
		fi;
		if
#ifdef BREAK_NODE_STAYS_FIRST
		:: nr_inactive[q] > 0 ->
#else
		:: len(pending_pwqs[n]) > 0 ->
#endif
			waiting_nodes ?? eval(n);
			waiting_nodes ! n
		:: else
		fi;
		got = YES;
		goto unlock
	}
dance:
	atomic { !pool[locked] -> pool[locked] = true }
	atomic {
		lock_A();
		coming = coming - (caller != NO_POOL);
#ifdef BREAK_NO_SECOND_LOOK
		goto activate
#else
		goto retry
#endif
	}
unlock:
	atomic {
#ifndef BREAK_RELOCK_UNDER_A
		A = false;
#endif
		if
		:: locked != caller -> pool[locked] = false
		:: else
		fi
	}
	if
	:: locked != caller && caller != NO_POOL -> atomic { !pool[caller] -> pool[caller] = true }
	:: else
	fi;
	atomic {
#ifdef BREAK_RELOCK_UNDER_A
		A = false;
#endif
		locked = NO_POOL;
		n = 0;
		q = 0
	}
}

proctype cpu()
{
	byte p, q, n, i, got, locked = NO_POOL;
	short f;

again:
	do
	:: SUM_PWQS(LEFT) + SUM_PWQS(REFS) == 0 -> break

	/* An item is queued. */
	:: atomic {
		PICK(CAN_QUEUE);
		items[p]--;
		refcnt[p]++;
#ifndef BREAK_PASS_OWN_PWQ
		if
		:: nr_inactive[p] > 0 -> nr_inactive[p]++; p = 0; goto again
		:: else
		fi;
		get_local(p);
#else
		got = (plugged[p] -> NO : ASK);
#endif
		if
		:: got == YES -> p = 0; got = 0; goto again
		:: got == NO -> nr_inactive[p]++; p = 0; goto again
		:: got == ASK -> pool[p] = true
		fi
		}
		get_any(p);
		atomic {
			if
			:: got == YES -> assert(nr_inactive[p] == 0)	/* first in, first out */
			:: got == NO -> nr_inactive[p]++
			fi;
			pool[p] = false;
			p = 0;
			got = 0
		}

	/* An item is done, or is cancelled after it was started. */
	:: atomic {
		PICK(CAN_COMPLETE);
		nr_running[p]--;
		if
		:: nr_free[NODE(p)] >= 0 ->
#ifdef BREAK_PUT_IN_TWO
			pool[p] = true;
			goto put_in_two
#endif
			nr_free[NODE(p)]++;
			nr_active--;
			refcnt[p]--;
			p = 0;
			goto again
		:: pool[p] = true
		fi
		}
		atomic {
			lock_A();
			nr_active--;
#ifndef BREAK_PUT_IGNORES_SPREAD
			if
			:: nr_free[NODE(p)] >= 0 -> nr_free[NODE(p)]++; A = false; goto done
			:: else
			fi;
#endif
			nr_spare++
		}
		if
#ifdef BREAK_SPREAD_WHILE_SOME_WAIT
		:: nr_spare > 0 -> spread_and_unlock_A(NODE(p))
#else
		:: nr_spare > 0 && len(waiting_nodes) == 0 -> spread_and_unlock_A(NODE(p))
#endif
#ifdef BREAK_NO_HAND_OUT
		:: A = false
#else
		:: hand_out(p)
#endif
		fi;
#ifdef BREAK_PUT_IN_TWO
		goto done;
put_in_two:
		atomic { nr_free[NODE(p)]++; nr_active-- }
#endif
done:
		atomic { refcnt[p]--; pool[p] = false; p = 0; got = 0 }

	/* An item that waits is cancelled. */
	:: atomic { PICK(CAN_CANCEL); cancels--; nr_inactive[p]--; refcnt[p]--; p = 0 }
	od
}

#if LIMITS
proctype limits()
{
	byte n, q, i, got, new, left = LIMITS, locked = NO_POOL;
	short f;

	do
	:: left == 0 -> break
	:: else ->
		atomic {
			lock_A();
			left--;
			if
			:: left == 0 -> new = MAX
			:: else -> select (new : 0 .. MAX)
			fi
		}
#ifndef BREAK_LOWER_WITHOUT_COLLECT
		collect();
#endif
		atomic {
			nr_spare = nr_spare + new - max;
			max = new;
			new = 0;
#ifndef BREAK_RAISE_WITHOUT_HAND_OUT
			filling = true;
			got = YES;
#endif
			A = false
		}
		do
		:: atomic { got == YES -> lock_A() }
			hand_out(NO_POOL)
		:: got == NO -> break
		od
	od
}
#endif

#ifdef RELEASE
/* pwq 0 goes away, and what follows it may start. */
proctype release()
{
	byte i, got;
	short f;

	atomic { items[0] == 0 && refcnt[0] == 0 && !pool[0] -> released[0] = true }
#ifdef ORDERED
	atomic { !pool[2] -> pool[2] = true; plugged[2] = false }
	do
	:: nr_inactive[2] == 0 -> break
	:: else ->
		atomic { get_local(2) }
		if
		:: got == ASK -> get_any(2)
		:: else
		fi;
		atomic {
			if
			:: got == YES -> nr_inactive[2]--
			:: got == NO -> break
			fi
		}
#ifdef BREAK_UNPLUG_ONE_ITEM
		break
#endif
	od;
	pool[2] = false;
#endif
#ifndef BREAK_RELEASED_PWQ_STAYS_PENDING
	if
	:: pending[0] -> atomic { !A -> clear_pending(0) }
	:: !pending[0]
	fi;
#endif
	freed[0] = true
}
#endif

init {
	byte i;

	atomic {
#if defined(ORDERED) && !defined(BREAK_NEW_PWQ_NOT_PLUGGED)
		plugged[2] = true;
#endif
		for (i : 1 .. CPUS) {
			run cpu()
		}
#if LIMITS
		run limits();
#endif
#ifdef RELEASE
		run release();
#endif
		set_up = true;
		i = 0
	}
}
