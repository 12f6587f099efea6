"""Frames: many items of a loop in one activity (semantics.md 22d, dev/decisions/0022).

How it works. The activity ``noetl.frame`` hosts the same pure machine as a loop's workflow does (host.py). It is fed
the same facts, and what it commands is done in this process: a tool call with all its attempts is a task (call.py), a
timer is a sleep. So an item of a frame has the same events, attempts, failures and result as one in a workflow.

    machine ──commands──► calls, sleeps ──facts──► machine
       │                                             │
       └─ events, ended calls, state ──► segments ──► payload store          heartbeat: the key of the last segment

What a workflow has in its history, a frame has in *segments* (segments.py). Every second it writes down what it told
since the last one, the results of the items that ended, and the machine's state with the calls in flight. A segment is
a checkpoint: once it is stored, its key goes with the heartbeat, and the next attempt after a lost worker restores the
machine from there. So no item is begun again that a heartbeat named, and a call in flight is made again by the rules
for lost attempts. A heartbeat reaches the server within two seconds, and no call begins while a segment waits for the
store: so a crash repeats at most the calls of the last seconds, not of an hour without a store.

The activity's result is the loop's report and the key of the last segment, from which the mirror reads the events.
"""
