// SPDX-License-Identifier: GPL-2.0
/*
 * How an unbound workqueue keeps its max_active exact: a model for Spin. The names are
 * those of kernel/workqueue.c.
 *
 * Four pwqs, each on a pool of its own; with SHARED, pwqs 0 and 1 are on the same one.
 * CPUS processes queue, complete and cancel items of any pwq, in any order and at any
 * time, so as many of these overlap. FLUSHES barriers are linked behind items that wait.
 * With LIMITS, another process sets max_active that many times, to any value from 0
 * (freezing) to MAX and at last to MAX. With RELEASE, pwq 0 goes away once it has no
 * items. With ORDERED, too, and pwq 2, where items go when all of pwq 0 have been queued,
 * is plugged until then.
 *
 * wq->active_lock, A here, nests inside pool locks. It protects nr_spare, max and which
 * pwqs are open. A pwq's counts are protected by its pool's lock. That a pwq is pending
 * is written under both. nr_spare is read without A where a slot is accepted: until
 * whoever lowers max_active has had the pool's lock, that may find an older value.
 *
 * What is changed without A is a pwq's nr_free: free slots that it holds, or CLOSED.
 * Whoever has the pool's lock takes and puts slots there by atomic operations on that
 * one word, each a single step. They fail if there is none to take, or if it's closed,
 * and may fail for a value that they read too late: at any time a pwq's free slots can
 * be missed, after which more are added to them under A. Also under A, a single exchange
 * closes a pwq. What is left to it is stored in a later step, before A is released. The
 * store that opens a pwq, under both locks, is seen by nobody else before that.
 *
 * An item is executed and done in one step, as until then only its slot matters. This
 * takes a worker that looks for items. One is there after a kick, and then for as long
 * as there are items: it kicks the pool for the next one when it starts on an item, and
 * looks for more when it's done. Cancelling takes no worker.
 *
 * What nobody else can see is merged into one step: code under A that touches no nr_free
 * and no other lock, and code under a pool's lock before it takes A.
 *
 * A pwq gets any number of the spare slots, and its turn may end with any item. So what
 * is proved holds for any number of shares and for any length of a turn.
 *
 * Proved: never are more items active than max_active allows, slots add up, and when
 * nothing can happen any more all items are done. No item waits while a slot is spare or
 * a pwq is open, unless whoever has set max_active is about to pass slots on. A pwq that
 * has items never looks empty. A pwq that waits is passed a slot after PWQS - 1 others
 * were at most, and what these keep is limited as well. Each BREAK_* is a mistake that
 * the verifier has to find.
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef MAX
#define MAX 2
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef LOOKS
#define LOOKS 1		/* at open pwqs before any is closed */
#endif
#ifndef ITEMS
#define ITEMS 2, 1, 1, 0	/* how many of each pwq */
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef LIMITS
#define LIMITS 0
#endif
#ifdef ORDERED
#define RELEASE
#endif
#ifndef DFL
#ifdef RELEASE
#define DFL 2		/* whose pool is locked by whoever sets max_active */
#else
#define DFL 0
#endif
#endif

#define CLOSED	(-1)
#define PWQS	4
#define ALL_PWQS(ok)	(ok(0) && ok(1) && ok(2) && ok(3))
#define SUM_PWQS(nr)	(nr(0) + nr(1) + nr(2) + nr(3))
#define PICK(can) \
	if :: can(0) -> p = 0 :: can(1) -> p = 1 :: can(2) -> p = 2 :: can(3) -> p = 3 fi

#ifdef SHARED
#define POOL(p)	((p) == 1 -> 0 : (p))
#define WORK(p)	((p) <= 1 -> WORKLIST(0) + WORKLIST(1) : WORKLIST(p))
#else
#define POOL(p)	(p)
#define WORK(p)	WORKLIST(p)
#endif

/* Under A. */
bool A;
short nr_spare = MAX;
byte max = MAX;
chan open_pwqs = [PWQS] of { byte };
chan pending_pwqs = [PWQS] of { byte };

/* Atomic words. */
short nr_free[PWQS] = CLOSED;

/* Under the pool's lock; pending under A too. */
bool pool[PWQS];	/* locked */
bool kicked[PWQS];	/* a worker of the pool looks for items */
byte worklist[PWQS];	/* active items that nobody executes yet */
byte barriers[PWQS];	/* behind them */
bool pending[PWQS];
bool plugged[PWQS];
byte nr_active[PWQS];
byte nr_inactive[PWQS];
bool linked[PWQS];	/* a barrier is linked behind one of the latter */
byte nr_keep[PWQS];
byte refcnt[PWQS];	/* items that are not done yet */
bool released[PWQS];	/* no items may come */

/* What is left to do. */
byte items[PWQS] = { ITEMS };
byte cancels = CANCELS;
byte flushes = FLUSHES;

/* For the proof only. */
byte nr_used;		/* slots of active items */
byte nr_passed;		/* slots that somebody has at hand */
byte limit = MAX;	/* slots that may be in use */
bool filling;		/* whoever set max_active will pass on all */
bool was_spare;		/* ... and found nr_spare not negative */
byte nr_reset;		/* ... and had the locks of so many pwqs */
bool freed[PWQS];
byte passes[PWQS];	/* times that others were passed a slot while this pwq waits */
byte keeps[PWQS];	/* ... and that they kept one */
bool set_up;

#define LEFT(p)		items[p]
#define REFS(p)		(refcnt[p] + barriers[p])
#define FREE(p)		(nr_free[p] > 0 && !freed[p] -> nr_free[p] : 0)
#define WORKLIST(p)	(worklist[p] + barriers[p])

#ifdef ORDERED
#define IN_ORDER(p)	(p == 0 || items[0] == 0)
#else
#define IN_ORDER(p)	true
#endif
#define CAN_QUEUE(p)	(items[p] && !pool[POOL(p)] && !released[p] && IN_ORDER(p))
#define CAN_EXECUTE(p)	(worklist[p] && kicked[POOL(p)] && !pool[POOL(p)])
#define CAN_FINISH(p)	(barriers[p] && kicked[POOL(p)] && !pool[POOL(p)])
#define CAN_CANCEL(p)	(cancels && worklist[p] && !pool[POOL(p)])
#define CAN_DROP(p)	(cancels && nr_inactive[p] && !pool[POOL(p)])
#define CAN_FLUSH(p)	(flushes && nr_inactive[p] && !linked[p] && !pool[POOL(p)])

#define PWQ_CLOSED(p)	(nr_free[p] < 0)
#define PWQ_LISTED(p)	((open_pwqs ?? [p] -> true : false) == (nr_free[p] >= 0))
#define PWQ_WAITS(p)	(pool[POOL(p)] || pending[p] == (nr_inactive[p] > 0 && !plugged[p]))
#define PWQ_DRAINS(p)	(pool[POOL(p)] || refcnt[p] == 0 || nr_active[p] + nr_inactive[p] > 0)
#define PWQ_IS_FAIR(p)	(passes[p] < PWQS)
/* for each item then active or about to be done: in turns, before them, with slots at hand */
#define PWQ_IS_KIND(p)	(keeps[p] <= BATCH * (MAX + CPUS) * (2 * (PWQS - 1) + MAX))

#ifdef BREAK_OPEN_WHILE_SOME_WAIT
#define SOME_WAIT(p)	pending[p]
#else
#define SOME_WAIT(p)	(len(pending_pwqs) > 0)
#endif

/* What is true whenever A is free. */
#define SLOTS_ADD_UP	(nr_used + nr_passed + nr_spare + SUM_PWQS(FREE) == max)
#define NONE_FORGOTTEN	(len(pending_pwqs) == 0 || \
			 ((filling || nr_spare <= 0) && ALL_PWQS(PWQ_CLOSED)))
#define NONE_TOO_MANY	(nr_spare >= 0 || ALL_PWQS(PWQ_CLOSED))
#define ALL_LISTED	(len(open_pwqs) <= max && ALL_PWQS(PWQ_LISTED))
#define ALL_WAIT	ALL_PWQS(PWQ_WAITS)
#define ALL_DRAIN	ALL_PWQS(PWQ_DRAINS)

#ifndef NO_MONITOR
/* Blocked for ever if that is so, and then adds no states. */
active proctype monitor()
{
end:
	atomic {
		!A && set_up && !(SLOTS_ADD_UP && NONE_FORGOTTEN && NONE_TOO_MANY &&
				  ALL_LISTED && ALL_WAIT && ALL_DRAIN) ->
		assert(SLOTS_ADD_UP);
		assert(NONE_FORGOTTEN);
		assert(NONE_TOO_MANY);
		assert(ALL_LISTED);
		assert(ALL_WAIT);
		assert(ALL_DRAIN)
	}
}
#endif

inline lock_A()
{
	!A -> A = true
}

inline kick(p)
{
	kicked[POOL(p)] = WORK(p) > 0
}

/* An item of p has a slot. */
inline start(p)
{
	assert(nr_used < limit);
#ifdef ORDERED
	assert(p == 0 || refcnt[0] == 0);
#endif
	nr_used++;
	nr_active[p]++;
	worklist[p]++
}

/* The barrier of an item that doesn't wait anymore. */
inline move_linked(p)
{
	if
	:: linked[p] -> linked[p] = false; barriers[p]++
	:: linked[p] && nr_inactive[p] > 0
	:: else
	fi
}

/* An item of p that waits has a slot. */
inline activate(p)
{
	start(p);
	nr_inactive[p]--;
	move_linked(p)
}

/* Under both locks. */
inline open(p, nr)
{
	if
#ifdef BREAK_OPEN_OVERWRITES
	:: open_pwqs ?? [eval(p)] -> nr_free[p] = nr
#else
	:: open_pwqs ?? [eval(p)] -> nr_free[p] = nr_free[p] + nr
#endif
	:: else -> open_pwqs ! p; nr_free[p] = nr
	fi
}

inline set_pending(p)
{
	pending[p] = true;
	pending_pwqs ! p
}

/* Harmless if p is not pending. */
inline clear_pending(p)
{
	if
	:: pending[p] ->
		pending[p] = false;
		pending_pwqs ?? eval(p);
		passes[p] = 0;
		keeps[p] = 0
	:: else
	fi
}

/* A slot is passed to p. */
inline count_pass(p)
{
	passes[0] = (p != 0 && pending[0] -> passes[0] + 1 : 0);
	passes[1] = (p != 1 && pending[1] -> passes[1] + 1 : 0);
	passes[2] = (p != 2 && pending[2] -> passes[2] + 1 : 0);
	passes[3] = (p != 3 && pending[3] -> passes[3] + 1 : 0);
	keeps[p] = 0;
	assert(ALL_PWQS(PWQ_IS_FAIR))
}

/* p keeps a slot. */
inline count_keep(p)
{
	keeps[0] = (p != 0 && pending[0] -> keeps[0] + 1 : 0);
	keeps[1] = (p != 1 && pending[1] -> keeps[1] + 1 : 0);
	keeps[2] = (p != 2 && pending[2] -> keeps[2] + 1 : 0);
	keeps[3] = (p != 3 && pending[3] -> keeps[3] + 1 : 0);
	assert(ALL_PWQS(PWQ_IS_KIND))
}

#define NO	0
#define YES	1
#define ASK	2

/* With p's pool locked: gets a slot, or p is pending. Goes on at has_asked. */
inline get_slot(p)
{
	atomic {
		lock_A();
		if
#ifdef BREAK_JUMP_THE_LINE
		:: nr_spare > 0 ->
#else
		:: nr_spare > 0 && len(pending_pwqs) == 0 ->
#endif
			select (f : 1 .. nr_spare);
			nr_spare = nr_spare - f;
			open(p, f - 1);
			f = 0;
			got = YES
#ifndef BREAK_DO_NOT_STEAL
		:: nr_spare <= 0 && len(pending_pwqs) == 0 -> got = ASK
#endif
		:: else -> got = NO
		fi
	}
	do
	:: atomic { got == ASK && f == 0 && looked < LOOKS && len(open_pwqs) > 0 ->
		open_pwqs ? <q>;
		if
		:: nr_free[q] == 0 -> open_pwqs ? q; open_pwqs ! q; looked++
		:: else -> looked = LOOKS
		fi;
		q = 0 }
	:: atomic { got == ASK && f == 0 && looked == LOOKS && len(open_pwqs) > 0 ->
		open_pwqs ? q;
		assert(!freed[q]);
		f = nr_free[q];
#ifdef BREAK_STEAL_IN_TWO
		}
		atomic { true ->
#endif
		nr_free[q] = CLOSED }
	:: atomic { else ->
		if
#ifndef BREAK_SLOT_IS_LOST
		:: f > 1 -> open_pwqs ! q; nr_free[q] = f / 2
#endif
		:: else
		fi;
		if
		:: got == ASK && f > 0 -> open(p, f - f / 2 - 1); f = 0; got = YES
		:: got == ASK && f == 0 -> got = NO
		:: else
		fi;
		if
		:: got == YES -> start(p)
		:: got == NO -> set_pending(p)
		fi;
		q = 0;
		looked = 0;
		A = false;
		goto has_asked }
	od
}

/*
 * With the pool mine locked: puts back a slot that was refused and, from next on with A
 * held, passes one to a pwq that waits. Goes on at done if none is spare or nobody waits.
 * Else q got it or refused it, and relock() has to follow.
 */
inline pass_slot(mine)
{
	atomic {
		lock_A();
		nr_passed--;
#ifndef BREAK_REFUSED_SLOT_IS_LOST
		nr_spare++;
#endif
next:
		if
		:: nr_spare <= 0 || len(pending_pwqs) == 0 -> A = false; goto done
		:: else
		fi;
#ifdef BREAK_STAYS_FIRST
		pending_pwqs ? <q>;
#else
		pending_pwqs ? q;
		pending_pwqs ! q;
#endif
		assert(!freed[q]);
		count_pass(q);
		nr_spare--;
		nr_passed++;
		A = false;
		if
#ifndef BREAK_LOCK_TWO_POOLS
		:: mine != POOL(q) -> pool[mine] = false
#endif
		:: else
		fi
	}
	atomic {
		if
		:: mine == POOL(q)
		:: mine != POOL(q) && !pool[POOL(q)] -> pool[POOL(q)] = true
		fi;
		if
#ifdef BREAK_ACCEPT_WHEN_LOWERED
		:: nr_inactive[q] > 0 ->
#else
		:: nr_inactive[q] > 0 && (nr_spare >= 0 || (was_spare && q >= nr_reset)) ->
#endif
			nr_keep[q] = BATCH * (nr_active[q] > 1 -> nr_active[q] : 1);
			nr_passed--;
			activate(q);
			got = YES
		:: nr_inactive[q] == 0 || nr_spare < 0 -> got = NO
		fi;
		if
		:: got == YES && nr_inactive[q] == 0 -> goto was_last
		:: else -> goto unlock
		fi
	}
was_last:
	atomic {
		lock_A();
#ifndef BREAK_EMPTY_STAYS_PENDING
		clear_pending(q);
#endif
		A = false;
unlock:
		if
		:: mine != POOL(q) ->
#ifndef BREAK_NO_KICK
			if
			:: got == YES -> kick(q)
			:: else
			fi;
#endif
			pool[POOL(q)] = false
		:: else
		fi
	}
}

inline relock(mine)
{
#ifndef BREAK_LOCK_TWO_POOLS
	if
	:: mine == POOL(q)
	:: mine != POOL(q) && !pool[mine] -> pool[mine] = true
	fi;
#endif
	q = 0;
	if
	:: got == NO -> goto put_back
	:: got == YES
	fi
}

proctype cpu()
{
	byte p, q, got, looked;
	short f;
#ifdef BREAK_CANCEL_DOES_NOT_KICK
	bool worker;
#endif

again:
	do
	:: SUM_PWQS(LEFT) + SUM_PWQS(REFS) == 0 -> break

	/* An item is queued. */
	:: atomic {
		PICK(CAN_QUEUE);
		items[p]--;
		refcnt[p]++;
		if
		:: nr_inactive[p] > 0 || plugged[p] -> got = NO
		:: nr_inactive[p] == 0 && !plugged[p] && nr_free[p] > 0 ->
			nr_free[p]--;
			start(p);
			got = YES
		:: nr_inactive[p] == 0 && !plugged[p] -> pool[POOL(p)] = true; goto ask
		fi;
has_asked:
		if
		:: got == YES -> kick(p)
		:: got == NO -> nr_inactive[p]++
		fi;
		pool[POOL(p)] = false;
		p = 0;
		got = 0;
		goto again
		}
ask:
		get_slot(p)

	/* An item that has a slot is done, or is cancelled. */
	:: atomic {
		if
		:: PICK(CAN_EXECUTE);
			worklist[p]--;
			kick(p)
#ifdef BREAK_CANCEL_DOES_NOT_KICK
			; worker = true
#endif
#if CANCELS
		:: PICK(CAN_CANCEL);
			cancels--;
			worklist[p]--;
			kicked[POOL(p)] = kicked[POOL(p)] && WORK(p) > 0
#endif
		fi;
		nr_used--;
#ifdef BREAK_DEC_FIRST
		nr_active[p]--;
#endif
		if
#ifdef BREAK_PUT_IN_TWO
		:: nr_free[p] >= 0 -> f = nr_free[p] + 1; nr_passed++; pool[POOL(p)] = true; goto put_in_two
#else
		:: nr_free[p] >= 0 -> nr_free[p]++; goto done
#endif
#ifdef BREAK_KEEP_FOR_EVER
		:: nr_inactive[p] > 0 && !plugged[p] ->
#else
		:: nr_inactive[p] > 0 && nr_keep[p] > 0 ->
			nr_keep[p]--;
#endif
			count_keep(p);
			activate(p);
			if
			:: nr_inactive[p] > 0 -> goto done
			:: else -> pool[POOL(p)] = true; goto was_last_kept
			fi
		:: nr_passed++; pool[POOL(p)] = true
		fi
		}
		atomic {
			lock_A();
			nr_passed--;
			if
			:: !SOME_WAIT(p) && nr_spare >= 0 -> open(p, 1)
			:: else ->
				nr_spare++;
#ifndef BREAK_NO_GRANT
				goto next
#endif
			fi;
			A = false;
			goto done
		}
#ifdef BREAK_PUT_IN_TWO
put_in_two:
		atomic { nr_free[p] = f; f = 0; nr_passed--; goto done }
#endif
was_last_kept:
		atomic {
			lock_A();
#ifndef BREAK_EMPTY_STAYS_PENDING
			clear_pending(p);
#endif
			A = false;
			goto done
		}
put_back:
		pass_slot(POOL(p));
		atomic {
			relock(POOL(p));
done:
#ifndef BREAK_DEC_FIRST
			nr_active[p]--;
#endif
			refcnt[p]--;
#ifdef BREAK_CANCEL_DOES_NOT_KICK
			if
			:: worker -> kick(p); worker = false
			:: else
			fi;
#else
			kick(p);
#endif
			pool[POOL(p)] = false;
			p = 0;
			got = 0
		}

	/* An item that waits is cancelled. */
#if CANCELS
	:: atomic {
		PICK(CAN_DROP);
		cancels--;
		nr_inactive[p]--;
		move_linked(p);
		if
		:: nr_inactive[p] == 0 && pending[p] -> pool[POOL(p)] = true; goto was_last_dropped
		:: else
		fi;
dropped:
		refcnt[p]--;
#ifndef BREAK_CANCEL_DOES_NOT_KICK
		kick(p);
#endif
		pool[POOL(p)] = false;
		p = 0;
		goto again
		}
was_last_dropped:
		atomic {
			lock_A();
#ifndef BREAK_EMPTY_STAYS_PENDING
			clear_pending(p);
#endif
			A = false;
			goto dropped
		}
#endif

	/* Somebody waits for an item that waits, and no longer. */
#if FLUSHES
	:: atomic { PICK(CAN_FLUSH); flushes--; linked[p] = true; p = 0 }
	:: atomic { PICK(CAN_FINISH); barriers[p]--; kick(p); p = 0 }
#endif
	od
}

#if LIMITS
proctype limits()
{
	byte q, i, got, new, left = LIMITS;

	do
	:: left == 0 -> break
	:: else ->
		atomic {
			lock_A();
			left--;
			if
			:: left == 0 -> new = MAX
			:: else -> select (new : 0 .. MAX)
			fi;
			was_spare = nr_spare >= 0;
			nr_spare = nr_spare + new - max;
			max = new;
			limit = (limit > new -> limit : new);
			new = 0
#ifndef BREAK_RAISE_WITHOUT_HAND_OUT
			; filling = true
#endif
		}
		do
#ifndef BREAK_LOWER_WITHOUT_CLOSING
		:: atomic { nr_spare < 0 && len(open_pwqs) > 0 ->
			open_pwqs ? q;
			assert(!freed[q]);
			nr_spare = nr_spare + nr_free[q];
			nr_free[q] = CLOSED;
			q = 0 }
		:: atomic { nr_spare >= 0 || len(open_pwqs) == 0 -> A = false; break }
#else
		:: atomic { A = false; break }
#endif
		od;
		do
		:: atomic { filling && !pool[POOL(DFL)] -> pool[POOL(DFL)] = true; got = NO }
			atomic { lock_A(); goto next }
put_back:
			pass_slot(POOL(DFL));
			atomic {
				relock(POOL(DFL));
done:
				filling = (got == YES);
#ifndef BREAK_HAND_OUT_DOES_NOT_KICK
				kick(DFL);
#endif
				pool[POOL(DFL)] = false
			}
		:: !filling -> break
		od;
		do
		:: atomic { nr_reset < PWQS && !pool[POOL(nr_reset)] ->
#ifndef BREAK_KEEP_WHEN_LOWERED
			nr_keep[nr_reset] = 0;
#endif
			nr_reset++ }
		:: atomic { nr_reset == PWQS ->
			nr_reset = 0;
			was_spare = false;
			limit = max;
			break }
		od
	od
}
#endif

#ifdef RELEASE
/* pwq 0 goes away, and what follows it may start. */
proctype release()
{
	byte q, got, looked;
	short f;

	atomic { items[0] == 0 && refcnt[0] + barriers[0] == 0 && !pool[0] -> released[0] = true }
	atomic {
		!A ->
		if
		:: open_pwqs ?? [0] ->
			open_pwqs ?? 0;
#ifndef BREAK_RELEASE_KEEPS_SLOTS
			nr_spare = nr_spare + nr_free[0];
#endif
			nr_free[0] = CLOSED
		:: else
		fi;
		freed[0] = true
	}
#ifdef ORDERED
	atomic { !pool[2] -> pool[2] = true; plugged[2] = false }
more:
	do
	:: atomic {
		if
		:: nr_inactive[2] == 0 || pending[2] -> goto unlock
		:: nr_inactive[2] > 0 && nr_free[2] > 0 -> nr_free[2]--; start(2); got = YES
		:: nr_inactive[2] > 0 && !pending[2] -> goto ask
		fi;
has_asked:
		if
		:: got == YES -> nr_inactive[2]--; move_linked(2)
		:: got == NO
		fi;
		got = 0;
#ifdef BREAK_UNPLUG_ONE_ITEM
		goto unlock
#else
		goto more
#endif
		}
ask:
		get_slot(2)
	od;
unlock:
	atomic {
#ifndef BREAK_UNPLUG_DOES_NOT_KICK
		kick(2);
#endif
		pool[2] = false
	}
#endif
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
