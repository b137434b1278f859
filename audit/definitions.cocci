// SPDX-License-Identifier: GPL-2.0
// What gives a variable, a member or a parameter its value, and what functions return: one JSON
// object a line. NAMES is replaced by a pattern of the names that are looked for; what functions return is
// said of all of them.

@initialize:python@
@@
import json

def say(kind, p, **more):
    place = {"file": p[0].file, "line": int(p[0].line), "function": p[0].current_element}
    print(json.dumps({"kind": kind} | place | more), flush=True)

@rule_taken@
identifier g, id =~ {NAMES};
type T;
parameter list[n] before;
position p;
@@
 g@p(before, T id, ...) { ... }

@script:python@
p << rule_taken.p;
id << rule_taken.id;
n << rule_taken.n;
@@
say("parameter", p, name=str(id), number=int(str(n)))

// An initializer is one, too.
@rule_given@
identifier id =~ {NAMES};
expression e;
assignment operator op;
position p;
@@
 id@p op e

@script:python@
p << rule_given.p;
id << rule_given.id;
op << rule_given.op;
e << rule_given.e;
@@
say("variable", p, name=str(id), op=str(op).strip(), value=str(e))

@rule_held@
identifier id =~ {NAMES};
expression x, e;
assignment operator op;
position p;
@@
(
 x->id@p op e
|
 x.id@p op e
)

@script:python@
p << rule_held.p;
id << rule_held.id;
op << rule_held.op;
e << rule_held.e;
@@
say("member", p, name=str(id), op=str(op).strip(), value=str(e))

// In steps, or through a pointer: its value is not to be told.
@rule_moved@
identifier id =~ {NAMES};
position p;
@@
(
 id@p++
|
 id@p--
|
 ++id@p
|
 --id@p
|
 &id@p
)

@script:python@
p << rule_moved.p;
id << rule_moved.id;
@@
if p[0].current_element != str(id):  # what macros make of a declaration
    say("variable", p, name=str(id), op="moved", value="")

@rule_counted@
identifier id =~ {NAMES};
expression x;
position p;
@@
(
 x->id@p++
|
 x->id@p--
|
 ++x->id@p
|
 --x->id@p
)

@script:python@
p << rule_counted.p;
id << rule_counted.id;
@@
say("member", p, name=str(id), op="moved", value="")

@rule_back@
expression e;
position p;
@@
 return@p e;

@script:python@
p << rule_back.p;
e << rule_back.e;
@@
say("returned", p, name=p[0].current_element, value=str(e))
