// SPDX-License-Identifier: GPL-2.0
/*
 * Workers that are picked under pool->lock and woken up after it is dropped: a model
 * for Spin. The names are those of kernel/workqueue.c.
 *
 * PRODUCERS queue ITEMS items each on one pool that starts with IDLE idle workers and
 * can create more, up to WORKERS. At any time, the one that has been idle the longest is
 * culled, if more than two are idle, of which the manager is one; time plays no role, so
 * that this is more than the kernel ever does. With PERCPU the pool's concurrency is
 * managed, else it's unbound. A producer may as well be a worker of another pool that
 * passes on a slot of max_active.
 *
 *   MEET	no item ends before all have been started
 *   FAILS	creating a worker may fail, and then a rescuer takes an item
 *   UNBIND	the CPU of the pool goes offline, and until then no item sleeps
 *   STRAYS	so many wakeups of idle workers come from elsewhere
 *
 * An item that hogs the CPU until wq_worker_tick() is no other than one that sleeps.
 *
 * What is done under pool->lock is one step. A picked worker is woken up in another
 * one. The waker is in an RCU read-side critical section from one to the other. A task
 * is freed when it has exited and all sections that had begun by then have ended.
 *
 * Proved: no freed task is woken up. No wakeup reaches a worker that has been woken up
 * already, but for one that is culled, or that was picked again after another one, or if
 * there are STRAYS. When nothing can happen any more, all items have been executed. Each
 * BREAK_* is a mistake that the verifier has to find.
 */

#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef ITEMS
#define ITEMS 1
#endif
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef IDLE
#define IDLE 3
#endif
#ifndef CULLS
#define CULLS 1
#endif
#ifndef STRAYS
#define STRAYS 0
#endif

#define NONE	255
#define READER(r)	(1 << (r))		/* a worker's or, behind them, a producer's */
#define OTHER		(WORKERS + PRODUCERS)	/* the rescuer, or who unbinds the workers */

#ifdef PERCPU
#define RUNNING(n)	nr_running = nr_running + (unbound -> 0 : n)
#else
#define RUNNING(n)	skip
#endif

#define NEED_MORE_WORKER	(worklist > 0 && nr_running == 0)
#define KEEP_WORKING		(worklist > 0 && nr_running <= 1)
#ifdef MEET
#define MET			(started == PRODUCERS * ITEMS)
#else
#define MET			skip
#endif
#ifdef BREAK_CULL_ALL
#define TOO_MANY_WORKERS	(nr_idle > 0)
#else
#define TOO_MANY_WORKERS	(nr_idle + managed > 2)
#endif

mtype = { UNBORN, TASK_IDLE, TASK_RUNNING, EXITED };

mtype state[WORKERS];
bool die[WORKERS], freed[WORKERS];
bool on_its_way[WORKERS];	/* picked since it was idle last */
bool twice;			/* has one been picked twice? */
byte waits_for[WORKERS];	/* the sections that the freeing of a task waits for */
byte readers;			/* the sections under way */

byte idle[WORKERS];		/* the last in is the first of pool->idle_list */
byte nr_idle, worklist, started, executed;
byte picked = NONE;
short nr_running;
bool managed, unbound;
byte manager;
byte queued;

inline enter_idle(w)
{
	idle[nr_idle] = w;
	nr_idle++
}

/* also clears the variables that are no longer needed, for fewer states */
inline leave_list(w)
{
	i = 0;
	do
	:: idle[i] == w -> break
	:: else -> i++
	od;
	do
	:: i + 1 < nr_idle -> idle[i] = idle[i + 1]; i++
	:: else -> break
	od;
	nr_idle--;
	idle[nr_idle] = 0;
	i = 0
}

/* for fewer states, nothing is on its way any more once one has been picked twice */
inline mark(p)
{
	picked = p;
	twice = twice || on_its_way[p];
	on_its_way[p] = !twice
}

/* kick_pool_pick(), and the beginning of the section in which it is woken up */
inline pick(r, p)
{
	p = NONE;
	if
	:: NEED_MORE_WORKER && nr_idle > 0 && picked != idle[nr_idle - 1] ->
		p = idle[nr_idle - 1];
		mark(p);
		begin(r)
	:: else
	fi
}

inline begin(r)
{
#ifndef BREAK_NO_RCU
	readers = readers | READER(r)
#else
	skip
#endif
}

inline wake_up(r, p)
{
	if
	:: p != NONE ->
		atomic {
			assert(!freed[p]);
			assert(state[p] == TASK_IDLE || die[p] || twice || STRAYS > 0);
			if
			:: state[p] == TASK_IDLE -> state[p] = TASK_RUNNING
			:: else
			fi;
			i = 0;
			readers = readers & ~READER(r);
			do
			:: i < WORKERS -> waits_for[i] = waits_for[i] & ~READER(r); i++
			:: else -> break
			od;
			i = 0;
			p = NONE
		}
	:: else
	fi
}

proctype Worker(byte w)
{
	byte p = NONE, i = 0;

woke_up:
	(state[w] == TASK_RUNNING);
	atomic {
		if
		:: die[w] ->
			state[w] = EXITED;
			waits_for[w] = readers;
			goto out
		:: else
		fi;
		leave_list(w);
		on_its_way[w] = false;
#ifndef BREAK_STAYS_PICKED
		picked = (picked == w -> NONE : picked);
#endif
recheck:
		managed = managed && manager != w;
		if
		:: !NEED_MORE_WORKER -> goto sleep
		:: else
		fi;
		if
		:: nr_idle == 0 && !managed ->
			managed = true;
			manager = w;
			goto manage
		:: else
		fi;
		RUNNING(1);
		goto work
	}
manage:
	/* create_worker() */
	atomic {
		p = 0;
		do
		:: p < WORKERS && state[p] != UNBORN -> p++
		:: else -> break
		od;
		if
		:: p < WORKERS ->
			state[p] = TASK_IDLE;
#ifndef BREAK_CREATED_NOT_PICKED
			mark(p);
#endif
			enter_idle(p);
			begin(w)
#ifdef FAILS
		:: true -> p = NONE
#endif
		:: else -> p = NONE
		fi
	}
	wake_up(w, p);
	goto recheck;
work:
	atomic {
		worklist--;
		started++;
#ifndef BREAK_NO_CHAIN
		pick(w, p)
#endif
	}
	wake_up(w, p);
	/* the work function: it may sleep */
#if defined(PERCPU) && !defined(UNBIND)
	if
	:: atomic {
			nr_running--;
#ifndef BREAK_SLEEPS_SILENTLY
			pick(w, p)
#endif
		};
		wake_up(w, p);
		MET;
		nr_running++
#ifndef MEET
	:: skip
#endif
	fi;
#else
	MET;
#endif
	atomic {
		executed++;
#ifdef BREAK_IDLE_BLINDLY
		if
		:: false -> goto work
#else
		if
		:: KEEP_WORKING -> goto work
#endif
		:: else
		fi;
		RUNNING(-1);
sleep:
		enter_idle(w);
#ifndef BREAK_STATE_UNLOCKED
		state[w] = TASK_IDLE
#endif
	}
#ifdef BREAK_STATE_UNLOCKED
	state[w] = TASK_IDLE;
#endif
	goto woke_up;
out:
	skip
}

proctype Producer(byte r)
{
	byte p = NONE, n = 0, i = 0;

	do
	:: n < ITEMS ->
		atomic {
			worklist++;
			queued++;
			n++;
			pick(r, p)
		}
		wake_up(r, p)
	:: else -> break
	od
}

/* idle_cull_fn() */
proctype Culler()
{
	byte w, n = 0, i = 0;

end:	do
	:: n < CULLS ->
		atomic {
			TOO_MANY_WORKERS;
#ifdef BREAK_CULL_FIRST
			w = idle[nr_idle - 1];
#else
			w = idle[0];
#endif
			leave_list(w);
			die[w] = true;
			n++
		}
		/* kthread_stop(): the reference that it has is dropped at the end */
		atomic {
			if
			:: state[w] == TASK_IDLE -> state[w] = TASK_RUNNING
			:: else
			fi
		}
		(state[w] == EXITED && waits_for[w] == 0);
		freed[w] = true
	:: else -> break
	od
}

/* creating a worker takes long, and a rescuer takes what there is to do */
proctype Rescuer()
{
	byte p = NONE, i = 0;

end:	atomic {
		(managed && worklist > 0);
		worklist--;
		started++
	}
	MET;
	atomic {
		executed++;
		pick(OTHER, p)
	}
	wake_up(OTHER, p)
}

/* unbind_workers() */
proctype Unbinder()
{
	byte p = NONE, i = 0;

	atomic {
		unbound = true;
		nr_running = 0;
#ifndef BREAK_UNBINDS_SILENTLY
		pick(OTHER, p)
#endif
	}
	wake_up(OTHER, p)
}

/* whatever else wakes up tasks */
proctype Stray()
{
	byte n = 0;

end:	do
	:: n < STRAYS ->
		atomic {
			if
			:: (nr_idle > 0 && state[idle[0]] == TASK_IDLE) ->
				state[idle[0]] = TASK_RUNNING
			:: (nr_idle > 0 && state[idle[nr_idle - 1]] == TASK_IDLE) ->
				state[idle[nr_idle - 1]] = TASK_RUNNING
			fi;
			n++
		}
	:: else -> break
	od
}

init {
	byte n = 0, i = 0;

	atomic {
		do
		:: n < WORKERS ->
			if
			:: n < IDLE ->
				state[n] = TASK_IDLE;
				enter_idle(n)
			:: else -> state[n] = UNBORN
			fi;
			run Worker(n);
			n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < PRODUCERS -> run Producer(WORKERS + n); n++
		:: else -> break
		od;
#ifdef FAILS
		run Rescuer();
#endif
#ifdef UNBIND
		run Unbinder();
#endif
#if STRAYS > 0
		run Stray();
#endif
		run Culler()
	}
	/* nothing can happen any more */
	timeout;
	assert(queued == PRODUCERS * ITEMS && executed == queued)
}
