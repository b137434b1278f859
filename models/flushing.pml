// SPDX-License-Identifier: GPL-2.0
/*
 * Flushing and cancelling a work item that may be pending while it executes: a model for
 * Spin. The names are those of kernel/workqueue.c, see move_barriers() there.
 *
 * X is queued QUEUES times by each of QUEUERS, flushed by FLUSHERS, and cancelled by
 * CANCELLERS with cancel_work(), or with cancel_work_sync(), which disables X and then
 * flushes it. Y, an item of another workqueue, kicks the pool KICKS times. No more than
 * MAX of X and of an item on some other pool are active.
 *
 *   ORDERED	the workqueue is ordered, and its attributes are changed: pwq n is on pool
 *		n, and plugged until all before it are gone, of POOLS
 *   RESCUER	Y is of the same workqueue, and worker 0 is its rescuer, which takes all
 *		that is on the worklist at once
 *
 * Callers of cancel_work_sync() hold a lock that Y takes; those of flush_work() may not.
 *
 * A list holds X, Y, and barriers that have lost their X, as many at once as were linked
 * behind it. While X is on a list, its barriers are those in `linked'. What is before all
 * else on worker->scheduled is in `first'. So barriers that are next to each other run in
 * one step, and which of them is first plays no role.
 *
 * What is done under pool->lock is one step. Which pool a flush has to lock is found out
 * before that, and once more with the lock held. A kicked worker looks at the worklist
 * later, and a worker looks again before it becomes idle.
 *
 * Proved: a flush returns only after the execution has ended that had begun when it was
 * called, and after the instance of X that was on a list then has been executed or
 * cancelled. X is never executed in two places at once. When nothing can happen any more,
 * all flushers have returned, and each instance has been executed or cancelled. Each
 * BREAK_* is a mistake that the verifier has to find.
 */

#ifndef QUEUERS
#define QUEUERS 1
#endif
#ifndef QUEUES
#define QUEUES 3
#endif
#ifndef FLUSHERS
#define FLUSHERS 1
#endif
#ifndef CANCELLERS
#define CANCELLERS 1
#endif
#ifndef KICKS
#define KICKS 1
#endif
#ifndef MAX
#define MAX 1
#endif
#ifndef WORKERS
#define WORKERS 2		/* of each pool */
#endif
#ifndef POOLS
#ifdef ORDERED
#define POOLS 2
#else
#define POOLS 1
#endif
#endif

#define NONE		255
#define LENGTH		6

/* what is on a list: X, Y, or barriers, each of which is a bit */
#define COUNTED		32	/* has a place in nr_active, once it's on a worklist */
#define X		160	/* that is COUNTED, too */
#define Y		64
#define BARRIERS(e)	((e) & 31)

#define POOL(w)		((w) / WORKERS)		/* of NONE, none that there is */
#define EXECUTING(p)	(POOL(busy) == (p))	/* find_worker_executing_work() */
#define EMPTY(p)	(!(queued && data == (p)) && !EXECUTING(p) && !refs[p])
#ifdef BREAK_PLUGGED_TO_WORKLIST
#define STAY(p)		(!inactive)
#else
#define STAY(p)		(!inactive || plugged[p])
#endif

chan worklist[POOLS] = [LENGTH] of { byte };
chan inactive_works[POOLS] = [LENGTH] of { byte };
chan scheduled[POOLS * WORKERS] = [LENGTH] of { byte };
byte first[POOLS * WORKERS];
bool kicked[POOLS], plugged[POOLS];
byte nr_idle[POOLS];
byte refs[POOLS];	/* the barriers of a pwq */
byte newest, oldest;	/* of the pwqs */
byte spare = MAX;

/* X */
bool pending, queued, inactive;
byte data = NONE;	/* the pool that work->data points to, if queued by way of the pwq */
byte linked;
byte disabled;
byte busy = NONE;	/* the worker that executes it */
byte instances;		/* neither begun nor cancelled */

byte done;		/* barriers that have run */
byte held;		/* the lock that Y takes */
byte returned;

/* flushers that must not return before the execution has ended, or the instance is gone */
byte by_execution, by_instance;

inline kick_pool(p)
{
	if
	:: nr_idle[p] > 0 && len(worklist[p]) > 0 -> kicked[p] = true
	:: else
	fi
}

/* the first of the inactive ones, if there is a slot */
inline activate(p)
{
	if
	:: spare > 0 && len(inactive_works[p]) > 0 && !plugged[p] ->
		spare--;
		inactive_works[p] ? e;
		if
		:: e == X -> inactive = false
		:: else
		fi;
		worklist[p] ! (e | COUNTED);
		e = 0
	:: else
	fi
}

/* by who isn't a worker of the pool, which would look at the worklist anyhow */
inline activate_and_kick(p)
{
	if
	:: len(inactive_works[p]) > 0 ->
		activate(p);
		kick_pool(p)
	:: else
	fi
}

/* to worker->scheduled, of the worker that executes X */
inline hand_over(w, barriers)
{
#ifdef BREAK_TAIL
	if
	:: barriers -> scheduled[w] ! barriers
	:: else
	fi
#else
	first[w] = first[w] | barriers
#endif
}

/* barriers, if any, take the place of X on a list */
inline replace(list, barriers)
{
	i = len(list);
	do
	:: i > 0 ->
		i--;
		list ? e;
		if
		:: e != X -> list ! e
		:: e == X && barriers -> list ! barriers
		:: else
		fi
	:: else -> break
	od;
	e = 0
}

/* what the worker does next: all up to the beginning of process_one_work() */
inline next_work()
{
	do
	:: first[w] -> item = first[w]; first[w] = 0; break
	:: !first[w] && len(scheduled[w]) > 0 -> scheduled[w] ? item; break
	:: !first[w] && len(scheduled[w]) == 0 && len(worklist[p]) > 0 ->
		do
		:: len(worklist[p]) > 0 ->
			worklist[p] ? e;
			if
#ifndef BREAK_NO_COLLISION
			:: e == X && EXECUTING(p) ->
				scheduled[busy] ! X;
#ifdef BREAK_COLLISION_ALONE
				if
				:: linked -> worklist[p] ! linked; linked = 0
				:: else
				fi
#endif
#endif
			:: else -> scheduled[w] ! e; taken = true
			fi;
			e = 0;
#ifdef RESCUER
			if
			:: taken && w > 0 -> break
			:: else
			fi
#else
			if
			:: taken -> break
			:: else
			fi
#endif
		:: else -> break
		od;
		taken = false
	:: else -> nr_idle[p]++; break
	od;
	if
	:: item == X ->
		assert(busy == NONE);
		busy = w;
		first[w] = linked;
		linked = 0;
		queued = false;
		pending = false;
		data = p;
		instances--;
		by_execution = by_instance;
		by_instance = 0
	:: else
	fi;
	if
	:: item -> kick_pool(p)
	:: else
	fi
}

proctype Worker(byte w)
{
	byte item, e, p = POOL(w);
	bool taken;

	do
	:: atomic {
		if
		:: !item && kicked[p] -> kicked[p] = false; nr_idle[p]--
		:: item == X -> busy = NONE; by_execution = 0
		:: item == Y && !held
		:: BARRIERS(item) ->
			done = done | BARRIERS(item);
			refs[p] = refs[p] & ~BARRIERS(item)
		fi;
		if
		:: item & COUNTED -> spare++; activate(p)
		:: else
		fi;
		item = 0;
		next_work()
	}
	od
}

proctype Queuer()
{
	byte n = 0, p;

	do
	:: n < QUEUES ->
		atomic {
			n++;
			if
			:: pending || disabled -> goto next
			:: else -> pending = true; p = newest
			fi
		};
		atomic {
			/* a pwq that is gone */
			if
			:: p < newest && EMPTY(p) -> p = newest
			:: else
			fi;
			queued = true;
			data = p;
			instances++;
			if
			:: spare > 0 && len(inactive_works[p]) == 0 && !plugged[p] ->
				spare--;
				worklist[p] ! X;
				kick_pool(p)
			:: else -> inactive = true; inactive_works[p] ! X
			fi;
			p = 0
		};
next:		skip
	:: else -> break
	od
}

/* try_to_grab_pending() until it succeeds, and what PENDING is kept for */
inline grab_pending()
{
#ifdef BREAK_LOOKED_EARLY
	worker = busy;
#endif
	atomic {
		if
		:: !pending
		:: queued ->
			p = data;
			barriers = linked;
			linked = 0;
			/* move_barriers() */
#ifndef BREAK_LOOKED_EARLY
			worker = busy;
#endif
#ifdef BREAK_TO_WORKLIST
			worker = NONE;
#endif
			if
			:: POOL(worker) == p ->
#ifdef BREAK_WRONG_WORKER
				worker = p * WORKERS;
#endif
				hand_over(worker, barriers);
				barriers = 0
			:: POOL(worker) != p && barriers && !STAY(p) ->
				worklist[p] ! barriers;
				barriers = 0
			:: else
			fi;
			if
			:: inactive -> replace(inactive_works[p], barriers)
			:: !inactive && worklist[p] ?? [X] -> replace(worklist[p], barriers)
			:: !inactive && !(worklist[p] ?? [X]) ->
				worker = p * WORKERS;
				do
				:: scheduled[worker] ?? [X] -> break
				:: !(scheduled[worker] ?? [X]) -> worker++
				od;
				replace(scheduled[worker], barriers)
			fi;
			barriers = 0;
			queued = false;
			instances--;
			by_instance = 0;
#ifndef BREAK_DATA_TO_NEW_POOL
			data = (plugged[p] -> oldest : p);
#endif
			/* nothing is queued behind X that would get its place */
			if
			:: inactive -> inactive = false
			:: else -> spare++
			fi;
#ifndef BREAK_NO_KICK
			kick_pool(p);
#endif
			pending = false;
			p = 0
		fi;
		worker = NONE;
		if
		:: sync -> disabled++
		:: else
		fi
	}
}

/* start_flush_work() and what comes of it */
inline flush()
{
	atomic {
		if
		:: busy != NONE -> by_execution = by_execution | me
		:: else
		fi;
		if
		:: queued -> by_instance = by_instance | me
		:: else
		fi;
		pool = data
	};
	do
	:: atomic {
		pool == NONE || (pool == data && !queued && !EXECUTING(pool)) -> break
	}
#ifdef BREAK_FLUSH_ONCE
	:: atomic {
		pool != NONE && pool != data && (queued || !EXECUTING(pool)) -> break
	}
	:: atomic {
		pool != NONE && pool != data && !queued && EXECUTING(pool) ->
		hand_over(busy, me);
		refs[pool] = refs[pool] | me;
		goto wait
	}
#else
	:: atomic {
		pool != NONE && pool != data -> pool = data
	}
#endif
	:: atomic {
		pool != NONE && pool == data && queued ->
		linked = linked | me;
		refs[pool] = refs[pool] | me;
		goto wait
	}
	:: atomic {
		pool != NONE && pool == data && !queued && EXECUTING(pool) ->
		hand_over(busy, me);
		refs[pool] = refs[pool] | me;
		goto wait
	}
	od;
	goto out;
wait:
	done & me;
	done = done & ~me;
out:
	atomic {
		assert(!((by_execution | by_instance) & me));
		pool = 0
	}
}

/* flush_work(), cancel_work() or cancel_work_sync() */
proctype Caller(byte me; bool cancels)
{
	byte pool, p, e, i, worker = NONE, barriers;
	bool sync;

	if
	:: cancels ->
		if
		:: sync = true; held++
		:: sync = false
		fi;
		grab_pending()
	:: else
	fi;
	if
	:: !cancels || sync -> flush()
	:: else
	fi;
	if
	:: sync ->
		atomic {
			assert(!queued);
			disabled--;
			held--
		}
	:: else
	fi;
	returned++
}

/* queues Y */
proctype Kicker()
{
	byte n = 0, p = 0;

	do
	:: n < KICKS ->
		atomic {
			n++;
			if
			:: p = 0
			:: p = POOLS - 1
			fi;
			worklist[p] ! Y;
			kick_pool(p);
			p = 0
		}
	:: else -> break
	od
}

/* an item on another pool, which takes a slot and gives it back */
proctype Other()
{
	byte e;

	atomic {
		spare > 0 -> spare--
	};
	atomic {
		spare++;
		activate_and_kick(0)
	}
}

/* changes attributes */
proctype Changer()
{
	do
	:: newest < POOLS - 1 ->
		atomic {
			plugged[newest + 1] = true;
			newest++
		}
	:: else -> break
	od
}

/* pwq_release_workfn(), unplug_oldest_pwq() */
proctype Releaser()
{
	byte e;

	do
	:: atomic {
		oldest < newest && EMPTY(oldest) -> oldest++
	   };
	   atomic {
		plugged[oldest] = false;
		activate_and_kick(oldest)
	   }
	:: oldest == POOLS - 1 -> break
	od
}

init {
	byte n = 0;

	atomic {
		do
		:: n < POOLS * WORKERS -> nr_idle[POOL(n)]++; run Worker(n); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < QUEUERS -> run Queuer(); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < FLUSHERS + CANCELLERS -> run Caller(1 << n, n >= FLUSHERS); n++
		:: else -> break
		od;
		n = 0;
		run Kicker();
#ifdef ORDERED
		run Changer();
		run Releaser()
#else
		run Other()
#endif
	}
	/* nothing can happen any more */
	timeout;
	assert(returned == FLUSHERS + CANCELLERS);
	assert(!pending && !queued && instances == 0 && spare == MAX);
	do
	:: n < POOLS -> assert(nr_idle[n] == WORKERS && len(worklist[n]) == 0); n++
	:: else -> break
	od
}
