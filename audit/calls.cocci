// SPDX-License-Identifier: GPL-2.0
// Calls of some functions, and what their results are assigned to: one JSON object a line.
// NAMES is replaced by a pattern of the functions' names.

@initialize:python@
@@
import json

def say(kind, p, **more):
    place = {"file": p[0].file, "line": int(p[0].line), "function": p[0].current_element}
    print(json.dumps({"kind": kind} | place | more), flush=True)

@rule_call@
identifier f =~ {NAMES};
expression list args;
position p;
@@
(
 f@p(args)
|
 (f@p)(args)
)

@script:python@
p << rule_call.p;
f << rule_call.f;
args << rule_call.args;
@@
say("call", p, name=str(f), args=[str(one) for one in args])

@rule_assigned@
identifier f =~ {NAMES};
expression x;
position p;
@@
(
 x = f@p(...)
|
 x = (f@p)(...)
)

@script:python@
p << rule_assigned.p;
f << rule_assigned.f;
x << rule_assigned.x;
@@
say("assigned", p, name=str(f), to=str(x))
