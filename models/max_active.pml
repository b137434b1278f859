// SPDX-License-Identifier: GPL-2.0
/*
 * How an unbound workqueue keeps its max_active exact: a model for Spin. The names are
 * those of kernel/workqueue.c.
 *
 * Four pwqs, each on a pool of its own; with SHARED, pwqs 0 and 1 are on the same one.
 * Pwqs 0 and 1 are of node 0, pwq 2 is of node 1 and pwq 3 of node LAST; that may be
 * NONE, which owns all slots at first. CPUS processes do whatever can be done, in any
 * order and at any time, so as many of these overlap: they queue items, start and end
 * them, cancel CANCELS, link FLUSHES barriers behind items that wait, run the timer,
 * and set max_active LIMITS times, to any value from 0 (freezing) to MAX and at last to
 * MAX. DEFERS items may be those that their pool executes already. With RESCUER, kicks
 * of pool 0 may find no worker, and there is a rescuer. With RELEASE, pwq 1 goes away
 * once it has no items. With DEPENDS, no item of pwq 0 ends before all others have. With
 * MANY, open pwqs are too many to look at all of them, or to close them at once.
 *
 * nna->lock, node[] here, nests inside pool locks. It protects what a node has: which
 * of its pwqs are open and pending, nr_owned and nr_spare. A pwq's counts are protected
 * by its pool's lock. That a pwq is pending is written under both.
 *
 * What is changed without the node's lock is a pwq's nr_free: free slots that it holds,
 * or CLOSED. Whoever has the pool's lock takes and puts slots there by atomic operations
 * on that one word, each a single step. Under the node's lock, a single exchange closes a
 * pwq. What is left to it is stored in a later step, before the lock is released. The
 * store that opens a pwq, under both locks, is seen by nobody else before that. nr_owed,
 * nr_waiting and whether the timer is pending are such words, too. Of other nodes, their
 * nr_owned and whether they wait are read without lock.
 *
 * What nobody else can see is merged into one step: code under a lock up to where it
 * looks at one of those words again or takes another lock. Inside one step, a process
 * waits for a lock with those held that it has taken before.
 *
 * A worker that looks for items is there after a kick, and then for as long as there are
 * items: it kicks the pool for the next one when it starts an item, and looks for more
 * when it's done. A worklist has no order: any item on it may be next, and any number
 * that can be parked are. Cancelling takes no worker.
 *
 * A pwq gets any number of the spare slots, the turn of a pwq may end with any item, and
 * that of a node with any slot. So what is proved holds for any number of shares and for
 * any length of a turn.
 *
 * Proved: never are more items executed than max_active allows, slots add up, and when
 * nothing can happen any more all items are done. No item waits while a slot is free
 * anywhere, unless somebody is about to pass it on or the timer will. No slot is reserved
 * for an item that isn't on the worklist. A pwq that waits is passed a slot after those
 * of its node that wait too were once each, and what these keep is limited as well. No
 * slot is passed on for ever, provided that a node's turn isn't over before the slot that
 * begins it has been passed on. Not proved: how long a node waits for others' slots, and
 * that a rescuer comes. Each BREAK_* is a mistake that the verifier has to find.
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef NODES
#define NODES 2
#endif
#ifndef LAST
#define LAST 1		/* node of pwq 3 */
#endif
#ifndef MAX
#define MAX 2
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef ITEMS
#define ITEMS 2, 0, 1, 0	/* how many of each pwq */
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DEFERS
#define DEFERS 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef LIMITS
#define LIMITS 0
#endif
#ifndef DFL
#define DFL 0		/* whose pool is locked by whoever passes on spare slots */
#endif

#define CLOSED	(-1)
#define NONE	NODES
#define PWQS	4
#define NODE(p)	((p) <= 1 -> 0 : ((p) == 2 -> 1 : LAST))
#define ALL_PWQS(ok)	(ok(0) && ok(1) && ok(2) && ok(3))
#define SUM_PWQS(nr)	(nr(0) + nr(1) + nr(2) + nr(3))
#define PICK(p, can) \
	if :: can(0) -> p = 0 :: can(1) -> p = 1 :: can(2) -> p = 2 :: can(3) -> p = 3 fi
#if NODES > 2
#define ALL_NODES(ok)	(ok(0) && ok(1) && ok(2) && ok(3))
#define SUM_NODES(nr)	(nr(0) + nr(1) + nr(2) + nr(3))
#else
#define ALL_NODES(ok)	(ok(0) && ok(1) && ok(2))
#define SUM_NODES(nr)	(nr(0) + nr(1) + nr(2))
#endif

#ifdef SHARED
#define POOL(p)	((p) == 1 -> 0 : (p))
#define WORK(p)	((p) <= 1 -> WORKLIST(0) + WORKLIST(1) : WORKLIST(p))
#else
#define POOL(p)	(p)
#define WORK(p)	WORKLIST(p)
#endif

/* Under the node's lock. */
bool node[NODES + 1];	/* locked */
byte nr_owned[NODES + 1];
byte nr_spare[NODES + 1];
bool counted[NODES + 1];
chan open_pwqs[NODES + 1] = [PWQS] of { byte };
chan pending_pwqs[NODES + 1] = [PWQS] of { byte };

/* Atomic words. */
short nr_free[PWQS] = CLOSED;
byte nr_owed;
byte nr_waiting;
bool timer;		/* pending */

/* Under the pool's lock; pending under the node's too. */
bool pool[PWQS];	/* locked */
bool kicked[PWQS];	/* a worker of the pool looks for items */
byte nr_listed[PWQS];	/* items on the worklist */
byte nr_granted[PWQS];
byte nr_inactive[PWQS];
byte nr_started[PWQS];
byte nr_deferred[PWQS];	/* to workers that execute them */
byte nr_keep[PWQS];
byte refcnt[PWQS];	/* items that are not done yet, and who else needs the pwq */
bool pending[PWQS];
byte behind[PWQS];	/* barriers linked behind items on the worklist */
byte linked[PWQS];	/* ... and behind those that are inactive */
byte barriers[PWQS];	/* on the worklist, alone */
hidden byte gone;	/* with their items */
bool released[PWQS];	/* no items may come */

/* What is being done, and what is left to do. */
byte max = MAX;		/* max_active */
bool ticking;		/* the timer's function runs */
bool setting;		/* max_active */
byte items[PWQS] = { ITEMS };
byte cancels = CANCELS;
byte defers = DEFERS;
byte flushes = FLUSHES;
byte limits = LIMITS;

/* For the proof only. */
byte nr_used;		/* slots of items that are executed */
byte nr_passed;		/* slots that somebody has at hand */
byte nr_slots = MAX;
byte limit = MAX;	/* slots that may be in use */
byte nr_searching;
bool freed[PWQS];
byte passes[PWQS];	/* times that others were passed a slot while this pwq waits */
byte keeps[PWQS];	/* ... and that they kept one */
bool set_up;

#define LEFT(p)		items[p]
#define REFS(p)		(refcnt[p] + barriers[p])
#define FREE(p)		(nr_free[p] > 0 && !freed[p] -> nr_free[p] : 0)
#define GRANTED(p)	nr_granted[p]
#define SPARE(n)	nr_spare[n]
#define WORKLIST(p)	(nr_listed[p] + barriers[p])
#define WAITS(n)	(len(pending_pwqs[n]) > 0)
#define OTHERS_WAIT(n)	(nr_waiting > counted[n])

#define CAN_QUEUE(p)	(items[p] && !pool[POOL(p)] && !released[p])
#define CAN_START(p)	(nr_listed[p] && kicked[POOL(p)] && !pool[POOL(p)])
#ifdef DEPENDS
#define CAN_END(p)	(nr_started[p] && !pool[POOL(p)] && \
			 (p > 0 || items[1] + items[2] + items[3] + \
				   refcnt[1] + refcnt[2] + refcnt[3] == 0))
#else
#define CAN_END(p)	(nr_started[p] && !pool[POOL(p)])
#endif
#define CAN_FINISH(p)	(barriers[p] && kicked[POOL(p)] && !pool[POOL(p)])
#define CAN_CANCEL(p)	(cancels && nr_listed[p] && !pool[POOL(p)])
#define CAN_DROP(p)	(cancels && nr_inactive[p] && !pool[POOL(p)])
#define CAN_FORGET(p)	(cancels && nr_deferred[p] && !pool[POOL(p)])
#define CAN_FLUSH(p)	(flushes && behind[p] < nr_listed[p] && !pool[POOL(p)])
#define CAN_LINK(p)	(flushes && linked[p] < nr_inactive[p] && !pool[POOL(p)])
#ifdef BREAK_GRANTED_ARE_PARKED
#define CAN_PARK(p)	(POOL(p) == mine && nr_listed[p] && pending[p])
#else
#define CAN_PARK(p)	(POOL(p) == mine && nr_listed[p] && pending[p] && !nr_granted[p])
#endif
#define WANTS(p)	(nr_listed[p] > nr_granted[p] || nr_inactive[p] > 0)

#ifdef MANY
#define BEING_CLOSED	(nr_searching > 0)
#else
#define BEING_CLOSED	false
#endif
#define PWQ_CLOSED(p)	(nr_free[p] < 0 || !WAITS(NODE(p)) || node[NODE(p)] || BEING_CLOSED)
#define PWQ_LISTED(p)	(node[NODE(p)] || \
			 (open_pwqs[NODE(p)] ?? [p] -> true : false) == (nr_free[p] >= 0))
#define PWQ_WAITS(p)	(pool[POOL(p)] || pending[p] == (nr_inactive[p] > 0))
#define PWQ_SPENDS(p)	(pool[POOL(p)] || nr_granted[p] <= nr_listed[p])
/* for each item then executed or about to be done: in turns, before them, with slots at hand */
#define PWQ_IS_KIND(p)	(keeps[p] <= BATCH * (MAX + CPUS) * (2 * (PWQS - 1) + MAX))
#define ON(n, nr, p)	(NODE(p) == n -> nr : 0)
#define NR_ON(n)	(ON(n, 1, 0) + ON(n, 1, 1) + ON(n, 1, 2) + ON(n, 1, 3))
#define PWQ_IS_FAIR(p)	(passes[p] < NR_ON(NODE(p)))
#define HAS(n, p)	ON(n, nr_started[p] + nr_granted[p] + FREE(p), p)
#define NODE_ADDS_UP(n)	(HAS(n, 0) + HAS(n, 1) + HAS(n, 2) + HAS(n, 3) + nr_spare[n] == \
			 nr_owned[n])
#define NODE_COUNTS(n)	(node[n] || !WAITS(n) || counted[n])
#define NODE_IS_DONE(n)	(!WAITS(n))

/* What is true at any time. */
#define SLOTS_ADD_UP	(nr_used + nr_passed + SUM_NODES(SPARE) + SUM_PWQS(FREE) + \
			 SUM_PWQS(GRANTED) == nr_slots && (setting || nr_slots == max + nr_owed))
#define NODES_ADD_UP	(nr_passed > 0 || ALL_NODES(NODE_ADDS_UP))
#define NONE_FORGOTTEN	(nr_passed > 0 || nr_searching > 0 || ticking || setting || timer || \
			 SUM_NODES(SPARE) + SUM_PWQS(FREE) == 0 || ALL_NODES(NODE_IS_DONE))
#define ALL_CLOSED	ALL_PWQS(PWQ_CLOSED)
#define ALL_LISTED	ALL_PWQS(PWQ_LISTED)
#define ALL_WAIT	ALL_PWQS(PWQ_WAITS)
#define ALL_SPEND	ALL_PWQS(PWQ_SPENDS)
#define ALL_COUNT	ALL_NODES(NODE_COUNTS)

#ifndef NO_MONITOR
/* Blocked for ever if that is so, and then adds no states. */
active proctype monitor()
{
end:
	if
	:: atomic { set_up && !SLOTS_ADD_UP -> assert(SLOTS_ADD_UP) }
	:: atomic { set_up && !NODES_ADD_UP -> assert(NODES_ADD_UP) }
	:: atomic { set_up && !NONE_FORGOTTEN -> assert(NONE_FORGOTTEN) }
	:: atomic { set_up && !ALL_CLOSED -> assert(ALL_CLOSED) }
	:: atomic { set_up && !ALL_LISTED -> assert(ALL_LISTED) }
	:: atomic { set_up && !ALL_WAIT -> assert(ALL_WAIT) }
	:: atomic { set_up && !ALL_SPEND -> assert(ALL_SPEND) }
	:: atomic { set_up && !ALL_COUNT -> assert(ALL_COUNT) }
	fi
}
#endif

inline lock_node(x)
{
	!node[x] -> node[x] = true
}

inline lock_pool(x)
{
	!pool[x] -> pool[x] = true
}

inline see(p)
{
	kicked[POOL(p)] = WORK(p) > 0
}

/* Where there's a rescuer, no worker may be found. */
inline kick(p)
{
	if
	:: see(p)
#ifdef RESCUER
	:: POOL(p) == 0
#endif
	fi
}

/* Under both locks. */
inline open(p, nr)
{
	if
#ifdef BREAK_OPEN_OVERWRITES
	:: open_pwqs[NODE(p)] ?? [eval(p)] -> nr_free[p] = nr
#else
	:: open_pwqs[NODE(p)] ?? [eval(p)] -> nr_free[p] = nr_free[p] + nr
#endif
	:: else -> open_pwqs[NODE(p)] ! p; nr_free[p] = nr
	fi
}

inline set_pending(p)
{
	pending[p] = true;
	pending_pwqs[NODE(p)] ! p
}

/* Of a pwq that an item was removed from; harmless if it's not pending. */
inline update_pending(p)
{
	if
#ifndef BREAK_EMPTY_STAYS_PENDING
	:: nr_inactive[p] == 0 && pending[p] ->
		!node[NODE(p)];
		pending[p] = false;
		pending_pwqs[NODE(p)] ?? eval(p);
		passes[p] = 0;
		keeps[p] = 0
#endif
	:: else
	fi
}

/* With the pool's lock: a slot is for an item on the worklist, or one that was inactive. */
inline grant(p)
{
	nr_granted[p]++;
	if
	:: nr_granted[p] > nr_listed[p] ->
		nr_listed[p]++;
		nr_inactive[p]--;
		if
		:: linked[p] > 0 -> linked[p]--; behind[p]++
		:: linked[p] <= nr_inactive[p]
		fi;
		update_pending(p)
	:: else
	fi
}

#define COUNT_ONE(nr, a, p) \
	nr[a] = (a == p -> 0 : (pending[a] && NODE(a) == NODE(p) -> nr[a] + 1 : nr[a]))
#define COUNT(nr, p) \
	COUNT_ONE(nr, 0, p); COUNT_ONE(nr, 1, p); COUNT_ONE(nr, 2, p); COUNT_ONE(nr, 3, p)

/* A slot is passed to p. */
inline count_pass(p)
{
	COUNT(passes, p);
	keeps[p] = 0;
	assert(ALL_PWQS(PWQ_IS_FAIR))
}

/* p keeps a slot. */
inline count_keep(p)
{
	COUNT(keeps, p);
	assert(ALL_PWQS(PWQ_IS_KIND))
}

/* With the node's lock. */
inline close_one(n)
{
	open_pwqs[n] ? q;
	assert(!freed[q]);
	nr_spare[n] = nr_spare[n] + nr_free[q];
	nr_free[q] = CLOSED;
	q = 0
}

inline pay(n)
{
	nr_owed--;
	nr_owned[n]--;
	nr_slots--
}

/* As many as are owed of those that node n has spare, or a pwq of it was granted. */
inline pay_all(nr, n)
{
	do
	:: nr > 0 && nr_owed > 0 -> nr--; pay(n)
	:: else -> break
	od
}

/* An item of p has left the worklist, and its barrier, if it has one, goes along. */
inline move_barrier(p, to)
{
	if
	:: behind[p] > 0 -> behind[p]--; to++
	:: behind[p] <= nr_listed[p]
	fi
}

/* An item of p is inactive that was on the worklist. */
inline park(p)
{
	nr_inactive[p]++;
	move_barrier(p, linked[p])
}

#ifdef BREAK_MOVE_ANYWAY
#define HAS_LESS(o)	true
#else
#define HAS_LESS(o)	(nr_owned[o] == 0 || nr_owned[o] + WAITS(n) < nr_owned[n])
#endif
/* a node whose turn has just begun gives slots only to one that would still have less */
#define MUST_STAY(o)	(began && WAITS(n) && nr_owned[o] + 1 >= nr_owned[n])
#define CAN_MOVE(o)	(o != n && WAITS(o) && OTHERS_WAIT(n) && !MUST_STAY(o) && \
			 (HAS_LESS(o) || (!own && !WAITS(n))))
#define STAYS(o)	(!CAN_MOVE(o))
#ifdef BREAK_OPEN_WHILE_SOME_WAIT
#define SOME_WAIT(n)	(own -> pending[p] : WAITS(n))
#else
#define SOME_WAIT(n)	WAITS(n)
#endif

/* What for slots are taken, placed or passed on. */
#define END	1	/* an item has ended */
#define CANCEL	2	/* more are granted than needed: an item was cancelled ... */
#define DEFER	3	/* ... or deferred, by a worker ... */
#define RESCUE	4	/* ... or by the rescuer */
#define SEARCH	5	/* a search has found some */
#define TICK	6	/* the timer has */
#define RAISE	7	/* there are more */

proctype cpu()
{
	byte p, q, n, t, o, mine, why;
	short f;
	bool own, got, first, began, rescuer;

again:
	do
	:: SUM_PWQS(LEFT) + SUM_PWQS(REFS) == 0 -> break

	/* An item is queued. */
	:: atomic {
		PICK(p, CAN_QUEUE);
		pool[POOL(p)] = true;
		items[p]--;
		refcnt[p]++;
		if
		:: nr_inactive[p] > 0 -> nr_inactive[p]++
		:: nr_inactive[p] == 0 && nr_free[p] >= 0 -> nr_listed[p]++
		:: nr_inactive[p] == 0 && nr_free[p] < 0 ->
			!node[NODE(p)];
			if
			:: WAITS(NODE(p)) -> set_pending(p); nr_inactive[p]++
			:: else -> nr_listed[p]++
			fi
		fi;
		kick(p);
unlock:
		pool[POOL(p)] = false;
		rescuer = false;
		goto forget
		}

	/* A worker takes an item, or the rescuer does. */
	:: atomic {
		if
		:: PICK(p, CAN_START); kicked[POOL(p)] = false
#ifdef RESCUER
		:: nr_listed[0] && !pool[0] -> rescuer = true
#endif
		fi;
		pool[POOL(p)] = true;
assign:
		nr_listed[p]--;
		if
#if DEFERS
		:: defers && nr_deferred[p] < nr_started[p] ->
			defers--;
			nr_deferred[p]++;
			move_barrier(p, gone);
			if
			:: !rescuer -> why = DEFER
#ifdef BREAK_RESCUER_KEEPS_SURPLUS
			:: rescuer && nr_listed[p] > 0 -> goto assign
#endif
			:: rescuer -> why = RESCUE
			fi;
			goto put_surplus
#endif
		:: true
		fi;
start:
		if
		:: nr_granted[p] > 0 -> nr_granted[p]--; goto started
		:: nr_granted[p] == 0 && nr_free[p] > 0 -> nr_free[p]--; goto started
		:: nr_granted[p] == 0 && nr_free[p] <= 0
		fi;
		n = NODE(p);
		lock_node(n);
		t = n;
		first = !WAITS(n)
		}
take:
		/* Those of a node t that is locked. */
		do
#ifdef BREAK_JUMP_THE_LINE
		:: atomic { f == 0 && nr_spare[t] > 0 ->
#else
		:: atomic { f == 0 && !WAITS(t) && nr_spare[t] > 0 ->
#endif
			select (f : 1 .. nr_spare[t]);
			nr_spare[t] = nr_spare[t] - f;
			nr_passed = nr_passed + f;
			goto taken }
#ifdef MANY
		:: atomic { f == 0 && !WAITS(t) && nr_spare[t] == 0 && len(open_pwqs[t]) > 0 ->
			goto taken }
#endif
		:: atomic { f == 0 && !WAITS(t) && nr_spare[t] == 0 && len(open_pwqs[t]) > 0 ->
			open_pwqs[t] ? q;
			if
			:: len(open_pwqs[t]) > 0 && nr_free[q] == 0 ->
				open_pwqs[t] ! q;
				open_pwqs[t] ? q
			:: true
			fi;
			assert(!freed[q]);
			f = nr_free[q];
			nr_passed = nr_passed + f;
#ifdef BREAK_CLOSE_IN_TWO
			}
			atomic { true ->
#endif
			nr_free[q] = CLOSED }
		:: atomic { else ->
			if
			:: f > 1 ->
				open_pwqs[t] ! q;
				nr_free[q] = f / 2;
				nr_passed = nr_passed - f / 2;
				f = f - f / 2
			:: else
			fi;
taken:
			q = 0;
			if
			:: why == SEARCH ->
				nr_owned[t] = nr_owned[t] - f;
				node[t] = false;
				goto search
			:: why != SEARCH && f > 0
			:: why != SEARCH && f == 0 -> goto wait
			fi;
			open(p, f - 1);
			nr_passed = nr_passed - f;
			f = 0;
			if
#ifndef BREAK_NO_ARM_WHEN_TAKEN
			:: OTHERS_WAIT(n) -> timer = true
#endif
			:: else
			fi;
			node[n] = false;
started:
			assert(nr_used < limit);
			nr_used++;
			nr_started[p]++;
			move_barrier(p, gone);
			t = 0;
			first = false;
#ifndef BREAK_START_DOES_NOT_KICK
			kick(p);
#endif
			goto unlock }
		od;

		/* It's parked, and so may be what is next. */
wait:
		atomic {
		if :: !pending[p] -> set_pending(p) :: else fi;
		if :: !counted[n] -> counted[n] = true; nr_waiting++ :: else fi;
		node[n] = false;
		park(p);
		mine = POOL(p);
		do
		:: PICK(q, CAN_PARK); nr_listed[q]--; park(q)
		:: break
		od;
		q = 0;
#ifndef BREAK_POOL_IS_NOT_HELD
		refcnt[p]++;
#endif
		nr_searching = nr_searching + first;
		pool[mine] = false;
		if
		:: !first -> goto searched
		:: first
		fi
		}
		atomic {
		why = SEARCH;
		o = (nr_owned[n] > 0 && timer -> 255 : nr_owned[n]);
		t = NONE + 1
		}
#ifdef MANY
#ifndef BREAK_REST_STAYS_OPEN
		if
		:: atomic { len(open_pwqs[n]) == 0 -> goto search }
		:: atomic { len(open_pwqs[n]) > 0 && !node[n] -> close_one(n); pay_all(nr_spare[n], n) }
		fi;
		do
		:: atomic { len(open_pwqs[n]) > 0 && !node[n] -> close_one(n); pay_all(nr_spare[n], n) }
		:: atomic { len(open_pwqs[n]) == 0 || !WAITS(n) ->
			t = (nr_spare[n] > 0 -> 0 : t);
			goto search }
		od;
#endif
#endif
search:
		do
		:: atomic { f == 0 && t > 0 ->
			t--;
			if
			:: t != n && (t == NONE || nr_owned[t] > o) -> lock_node(t); goto take
			:: else
			fi }
		:: atomic { else ->
			t = 0;
			o = 0;
			if
			:: f == 0 -> goto found
			:: f > 0
			fi;
			lock_node(n);
			nr_owned[n] = nr_owned[n] + f;
			nr_spare[n] = nr_spare[n] + f;
			nr_passed = nr_passed - f;
			f = 0;
#ifndef BREAK_FOUND_IS_NOT_PAID
			pay_all(nr_spare[n], n);
#endif
			node[n] = false;
			goto found }
		od;

		/* From here on, the worker can be preempted. */
found:
		atomic {
#ifndef BREAK_NO_ARM_AFTER_SEARCH
		timer = true;
#endif
		nr_searching--;
		goto pass_spare
		}
searched:
		atomic {
		first = false;
		lock_pool(mine);
		assert(!freed[p]);
#ifndef BREAK_POOL_IS_NOT_HELD
		refcnt[p]--;
#endif
look:
		if
		:: rescuer -> kick(p)
		:: !rescuer -> see(p)
		fi;
		goto unlock
		}

	/* An item ends. */
	:: atomic {
		PICK(p, CAN_END);
		pool[POOL(p)] = true;
		nr_started[p]--;
		nr_used--;
		why = END;
put:
		mine = POOL(p);
		n = NODE(p);
		if
#ifdef BREAK_PUT_IN_TWO
		:: nr_free[p] >= 0 -> f = nr_free[p] + 1; nr_passed++; goto put_in_two
#else
		:: nr_free[p] >= 0 -> nr_free[p]++; goto placed
#endif
#ifdef BREAK_KEEP_FOR_EVER
		:: nr_free[p] < 0 && WANTS(p) ->
#else
		:: nr_free[p] < 0 && WANTS(p) && nr_keep[p] > 0 ->
			nr_keep[p]--;
#endif
			count_keep(p);
			grant(p);
			goto placed
		:: nr_free[p] < 0
		fi;
		nr_passed++;
		own = true;
		lock_node(n);
		goto place
		}
#ifdef BREAK_PUT_IN_TWO
put_in_two:
		skip;
		atomic { nr_free[p] = f; f = 0; nr_passed--; goto placed }
#endif
place:
		/* One of a node n that is locked. */
		atomic {
		o = n;
		if
		:: nr_owed > 0 ->
			pay(n);
#ifndef BREAK_PAID_IS_LAST
			got = true;
#endif
			goto no_more
		:: nr_owed == 0 && CAN_MOVE(0) -> o = 0
		:: nr_owed == 0 && CAN_MOVE(1) -> o = 1
		:: nr_owed == 0 && CAN_MOVE(2) -> o = 2
#if NODES > 2
		:: nr_owed == 0 && CAN_MOVE(NONE) -> o = NONE
#endif
		:: nr_owed == 0 && SOME_WAIT(n) -> goto pass
		:: nr_owed == 0 && !SOME_WAIT(n) && ALL_NODES(STAYS) -> goto leave
		fi;
		nr_owned[n]--;
		goto move
		}
move:
		node[n] = false;
		atomic {
		n = o;
		lock_node(n);
#ifndef BREAK_TURN_DOES_NOT_BEGIN
		began = (nr_owned[n] == 0);
#endif
		nr_owned[n]++;
		goto place
		}
leave:
		skip;
		atomic {
		if
		:: own && NODE(p) == n -> open(p, 1)
		:: else -> nr_spare[n]++
		fi;
		if
#ifndef BREAK_NO_ARM_WHEN_LEFT
		:: OTHERS_WAIT(n) -> timer = true
#endif
		:: else
		fi;
no_more:
		nr_passed--;
		node[n] = false;
		goto placed
		}
pass:
		atomic {
#ifdef BREAK_STAYS_FIRST
		pending_pwqs[n] ? <q>;
#else
		pending_pwqs[n] ? q;
		pending_pwqs[n] ! q;
#endif
		assert(!freed[q]);
		count_pass(q);
		began = false;
		node[n] = false;
#ifndef BREAK_LOCK_TWO_POOLS
		pool[mine] = (mine == POOL(q))
#endif
		}
		atomic {
		if :: mine != POOL(q) -> lock_pool(POOL(q)) :: else fi;
		if
#ifdef BREAK_ACCEPT_WHEN_OWED
		:: nr_inactive[q] > 0 ->
#else
		:: nr_inactive[q] > 0 && nr_owed == 0 ->
#endif
			o = nr_started[q] + nr_granted[q];
			nr_keep[q] = BATCH * (o > 1 -> o : 1);
			nr_passed--;
			got = true;
			grant(q);
#ifndef BREAK_PASS_DOES_NOT_KICK
			if :: mine != POOL(q) -> kick(q) :: else fi
#endif
		:: else
		fi;
		pool[POOL(q)] = (mine == POOL(q))
		}
		atomic {
		if
#ifndef BREAK_LOCK_TWO_POOLS
		:: mine != POOL(q) -> lock_pool(mine)
#endif
		:: else
		fi;
		q = 0;
		if
		:: !got -> lock_node(n); goto place
		:: got
		fi;
placed:
		o = 0;
		own = false;
		began = false;
		if
		:: why == END -> got = false; goto done
		:: why > END && why < SEARCH -> got = false; goto put_surplus
		:: why == SEARCH -> n = NODE(p)
		:: why == TICK -> n = t
		:: why == RAISE -> n = NONE
		fi;
		kick(mine);
		pool[mine] = false;
		if
		:: got -> got = false
		:: !got -> goto passed_spare
		fi
		}
pass_spare:
		skip;
		atomic {
		lock_pool(mine);
		lock_node(n);
		if :: nr_spare[n] > 0 -> nr_spare[n]--; nr_passed++; goto place :: else fi;
		node[n] = false;
		kick(mine);
		pool[mine] = false;
passed_spare:
		if
		:: why == SEARCH -> goto searched
		:: why == TICK -> goto ticked
		:: why == RAISE -> goto was_set
		fi
		}
done:
		atomic {
		refcnt[p]--;
		if
		:: nr_deferred[p] > 0 -> nr_deferred[p]--; why = 0; goto start
		:: nr_deferred[p] <= nr_started[p] -> goto look
		fi
		}

	/* An item is cancelled: on the worklist, inactive or deferred. */
#if CANCELS
	:: atomic {
		if
		:: PICK(p, CAN_CANCEL);
			nr_listed[p]--;
			move_barrier(p, barriers[p])
		:: PICK(p, CAN_DROP);
			nr_inactive[p]--;
			if
			:: linked[p] > 0 -> linked[p]--; barriers[p]++
			:: linked[p] <= nr_inactive[p]
			fi
#if DEFERS
		:: PICK(p, CAN_FORGET); nr_deferred[p]--
#endif
		fi;
		cancels--;
		pool[POOL(p)] = true;
		update_pending(p);
		why = CANCEL
		}
#endif
put_surplus:
		atomic {
		if
#ifndef BREAK_SURPLUS_IS_KEPT
		:: nr_granted[p] > nr_listed[p] -> nr_granted[p]--; goto put
#endif
		:: else
		fi;
		if
		:: why == DEFER -> goto look
		:: why == RESCUE -> why = 0;
			if
			:: nr_listed[p] > 0 -> goto assign
			:: else -> goto look
			fi
		:: why == CANCEL
		fi;
		refcnt[p]--;
#ifndef BREAK_CANCEL_DOES_NOT_KICK
		kick(p);
#endif
		goto unlock
		}

	/* The timer has expired. */
	:: atomic { timer && !ticking ->
		ticking = true;
#ifndef BREAK_TIMER_ENDS_LATE
		timer = false;
#endif
		why = TICK }
		do
		:: atomic { t <= NONE ->
			!node[t];
			if
#ifdef BREAK_ALL_UNCOUNTED
			:: counted[t] -> counted[t] = false; nr_waiting--
#else
			:: counted[t] && !WAITS(t) -> counted[t] = false; nr_waiting--
#endif
			:: else
			fi;
			t++ }
		:: atomic { else -> t = 0; mine = POOL(DFL); break }
		od;
		do
		:: atomic { t <= NONE && nr_waiting > 0 -> lock_node(t) }
			do
#ifndef BREAK_TIMER_DOES_NOT_CLOSE
			:: atomic { len(open_pwqs[t]) > 0 -> close_one(t) }
#endif
#ifdef MANY
			:: atomic { len(open_pwqs[t]) > 0 -> pay_all(nr_spare[t], t); node[t] = false }
				atomic { lock_node(t) }
			:: atomic { len(open_pwqs[t]) > 0 ->
#ifndef BREAK_TIMER_GIVES_UP
				timer = true;
#endif
				node[t] = false;
				n = t;
				break }
#endif
			:: atomic { else -> node[t] = false; n = t; break }
			od;
			goto pass_spare;
ticked:
			t++
		:: atomic { else ->
			t = 0;
			ticking = false;
#ifdef BREAK_TIMER_ENDS_LATE
			timer = false;
#endif
			goto forget }
		od

	/* max_active is set. */
	:: atomic { limits && !setting ->
		setting = true;
		limits--;
		if
		:: limits == 0 -> o = MAX
		:: limits > 0 -> select (o : 0 .. MAX)
		fi;
		if
		:: o <= max -> nr_owed = nr_owed + max - o
		:: else ->
			limit = (limit > o -> limit : o);
			f = o - max;
			do
			:: f > 0 && nr_owed > 0 -> f--; nr_owed--
			:: else -> break
			od;
			n = NONE;
			mine = POOL(DFL);
			why = RAISE
		fi;
		max = o;
		o = 0;
		if :: why == RAISE -> goto raise :: else fi
		}
		do
		:: atomic { t <= NONE -> lock_node(t) }
			do
#ifndef BREAK_LOWER_WITHOUT_CLOSING
			:: atomic { len(open_pwqs[t]) > 0 -> close_one(t) }
#endif
#ifdef MANY
#ifdef BREAK_LOWER_GIVES_UP
			:: atomic { len(open_pwqs[t]) > 0 ->
#else
			:: atomic { len(open_pwqs[t]) > 0 && nr_owed == 0 ->
#endif
				pay_all(nr_spare[t], t); node[t] = false; t++; break }
			:: atomic { len(open_pwqs[t]) > 0 -> pay_all(nr_spare[t], t); node[t] = false }
				atomic { lock_node(t) }
#endif
			:: atomic { else -> pay_all(nr_spare[t], t); node[t] = false; t++; break }
			od
		:: atomic { else -> t = 0; break }
		od;
		do
		:: atomic { t < PWQS ->
			p = t;
			lock_pool(POOL(p));
#ifndef BREAK_KEEP_WHEN_LOWERED
			nr_keep[p] = 0
#endif
			}
			atomic {
			lock_node(NODE(p));
#ifndef BREAK_GRANTED_STAY
			pay_all(nr_granted[p], NODE(p));
#endif
			node[NODE(p)] = false;
			pool[POOL(p)] = false;
			t++ }
		:: atomic { else -> limit = max; t = 0; goto was_set }
		od;
raise:
		skip;
		atomic {
		lock_node(NONE);
		nr_owned[NONE] = nr_owned[NONE] + f;
		nr_spare[NONE] = nr_spare[NONE] + f;
		nr_slots = nr_slots + f;
		f = 0;
		node[NONE] = false;
#ifndef BREAK_RAISE_WITHOUT_PASSING
		goto pass_spare;
#endif
was_set:
		setting = false;
forget:
		p = 0;
		n = 0;
		mine = 0;
		why = 0;
		goto again
		}

	/* Somebody waits for an item that waits, and no longer. */
#if FLUSHES
	:: atomic { PICK(p, CAN_FLUSH); flushes--; behind[p]++; p = 0 }
	:: atomic { PICK(p, CAN_LINK); flushes--; linked[p]++; p = 0 }
	:: atomic { PICK(p, CAN_FINISH); barriers[p]--; see(p); p = 0 }
#endif

	/* Pwq 1 goes away. */
#ifdef RELEASE
	:: atomic { items[1] + REFS(1) == 0 && !released[1] && !pool[POOL(1)] ->
		released[1] = true }
		atomic { !node[NODE(1)] ->
			if
			:: open_pwqs[NODE(1)] ?? [1] ->
				open_pwqs[NODE(1)] ?? 1;
#ifndef BREAK_RELEASE_KEEPS_SLOTS
				nr_spare[NODE(1)] = nr_spare[NODE(1)] + nr_free[1];
#endif
				nr_free[1] = CLOSED
			:: else
			fi;
			freed[1] = true }
#endif
	od
}

init {
	byte i;

	atomic {
		nr_owned[NONE] = MAX;
		nr_spare[NONE] = MAX;
		for (i : 1 .. CPUS) {
			run cpu()
		}
		set_up = true;
		i = 0
	}
}
