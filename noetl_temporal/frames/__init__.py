"""Frames: many items of a loop in one activity (semantics.md 22d, dev/decisions/0022).

How it works. The activity ``noetl.frame`` hosts the same pure machine as the workflow of a loop (host.py). The machine
gets the same facts, and its commands run in this process: a tool call with all its attempts is a task (call.py), and a
timer is a sleep. So an item of a frame has the same events, attempts, failures and result as one in a workflow.

    machine ──commands──► calls, sleeps ──facts──► machine
       │                                             │
       └─ events, ended calls, state ──► segments ──► payload store          heartbeat: the key of the last segment

A frame keeps in *segments* (segments.py) what a workflow keeps in its history. Every second it writes a segment with
the events since the last one, the results of the items that ended, and the machine's state with the calls in progress.
A segment is a checkpoint: once it is stored, the heartbeat carries its key, and the next attempt after a lost worker
restores the machine from it. So items that a heartbeat has reported are not repeated, and calls in progress are
repeated by the rules for lost attempts. A heartbeat reaches the server within two seconds, and no call starts while a
segment is waiting to be stored: so a crash repeats at most the calls of the last seconds, even if the store was
unavailable for an hour.

The activity's result is the loop's report and the key of the last segment, from which the mirror reads the events.
"""
