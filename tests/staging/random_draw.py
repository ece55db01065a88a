"""Draws an act at random: who ends which process, how, in which state, and when."""

import random
import signal

KILL, TERM, INT, HUP = signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP
USR1, ALRM, SEGV, ABRT, QUIT = signal.SIGUSR1, signal.SIGALRM, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT
KINDS = {"sent": 40, "race": 14, "oom": 22, "own": 10, "timer": 4, "parent": 7, "namespace": 6, "saves": 4}
# When the recorder starts later: what was caught before is what it has not seen.
KINDS_EARLY = {**KINDS, "saves": 60}
PATHS = {
    "kill": 6, "tgkill": 3, "pidfd": 3, "queue": 3, "thread_queue": 2, "int80": 2, "put_in": 2, "ptrace_kill": 1,
    "tracer_exit": 1,
}
TRACERS = ("put_in", "ptrace_kill", "tracer_exit")
SENDERS = {"process": 3, "thread": 3, "leaderless": 2, "older": 2, "older leaderless": 1}
SIGNALS = {KILL: 10, TERM: 6, INT: 1, HUP: 1, USR1: 1, ALRM: 1, SEGV: 1, ABRT: 1, QUIT: 1}
DISPOSITIONS = {"caught": 3, "blocked": 3, "ignored": 2, "waited": 2, "exits": 3, "again": 2}
STATES = {"plain": 6, "stopped": 1, "frozen": 1, "in exec": 1}
CODES = (0, 1, 3, 15, 128 + 6, 128 + 9, 128 + 11, 128 + 15, 255)
NAMES = (None, None, "ray::W.f", "ray::IDLE", "raylet", "python")
# In codes of siginfo that a process may make up for another.
FORGED = (-1, -2, -3, -5, -60)
# Seconds in which a process has started, so that its parent does not end before it is ready.
STARTS = 1.5
MOST_LEVELS, LONGEST_NAME, LONGEST_PATH = 20, 200, 3400


def weighted(rng, table):
    return rng.choices(list(table), list(table.values()))[0]


def gap(rng, longest):
    """Returns seconds: none, an instant, a moment, or anything."""
    return rng.choice([0, 0.001, 0.02, rng.uniform(0, 1), rng.uniform(0, longest)])


def sending(rng, attached):
    senders = SENDERS if attached else {who: SENDERS[who] for who in ("process", "thread", "leaderless")}
    sender, path = weighted(rng, senders), weighted(rng, PATHS)
    # A tracer waits for what it traces, as a parent does. One that ends is not used again.
    while path in TRACERS and (sender == "thread" or sender.startswith("older")):
        path = weighted(rng, PATHS)
    number = KILL if path in ("ptrace_kill", "tracer_exit") else weighted(rng, SIGNALS)
    return {"sender": sender, "path": path, "signal": int(number), "code": rng.choice(FORGED)}


def disposed(rng, act, longest):
    """Adds a signal that does not end the process at once, and its sender."""
    how = weighted(rng, DISPOSITIONS)
    number = int(rng.choice([TERM, TERM, INT, HUP, USR1]))
    act["order"].update(signals={str(number): how}, saves=gap(rng, longest), taken=rng.choice(["exits", "goes on"]))
    act["before"] = {**sending(rng, act["attached"]), "signal": number}
    while act["before"]["path"] in TRACERS:
        act["before"] = {**sending(rng, act["attached"]), "signal": number}


def layout(rng):
    """Returns the groups from the top, each with a name and perhaps a limit in MiB, and what fills one from beside."""
    depth = rng.choice([1, 2, 3, rng.randint(1, MOST_LEVELS), rng.randint(11, MOST_LEVELS)])
    long = rng.random() < 0.35
    size = min(LONGEST_NAME, LONGEST_PATH // depth - 1)
    lengths = [rng.randint(60, size) if long and size > 64 else 0 for _ in range(depth)]
    names = [f"l{level}" + "-" * bool(length) + "n" * length for level, length in enumerate(lengths)]
    limits = [None] * depth
    mib, style = rng.randint(40, 56), rng.choice(["one", "equal", "all", "near", "beside"])
    if style == "all":
        limits = [mib] * depth
    else:
        limits[rng.randrange(depth)] = mib
        if style != "one" and depth > 1:
            upper, lower = sorted(rng.sample(range(depth), 2))
            above = mib if style == "equal" else mib + rng.choice([-1, 1, 0.25, -0.25])
            limits = [None] * depth
            limits[upper], limits[lower] = above, mib
            if style == "beside":
                # A neighbour of the lower group takes from the upper one, which is then full first.
                limits[upper], limits[lower] = mib + 20, mib
                return {"groups": list(zip(names, limits)), "beside": {"level": upper, "mib": 30}}
    return {"groups": list(zip(names, limits)), "beside": None}


def without_tracer(rng, act):
    """A tracer waits for ever for a process that stands still."""
    return [{**one, "path": rng.choice(["kill", "pidfd"])} if one["path"] in TRACERS else one for one in act["sent"]]


def shape(rng, act):
    order = act["order"]
    order["name"] = rng.choice(NAMES)
    order["threads"] = rng.choice([0, 0, 1, 5])
    order["worker"] = rng.random() < 0.3
    act["state"] = weighted(rng, STATES)
    if act["state"] == "in exec":
        order["in_exec"] = rng.choice(["leader", "thread"])
    elif rng.random() < 0.15:
        act["leaderless"] = True
    if rng.random() < 0.3:
        order["between"] = rng.choice(["process", "thread"])


def draw(seed, number, longest, attached, early=False):
    """Returns the act with this number of a seed. It is the same each time."""
    rng = random.Random(f"{seed}/{number}")
    act = {"number": number, "kind": weighted(rng, KINDS_EARLY if early else KINDS), "attached": attached, "order": {"code": rng.choice(CODES)}}
    act["state"] = "plain"
    KIND[act["kind"]](rng, act, longest)
    act["gap"] = gap(rng, longest)
    return act


def sent(rng, act, longest):
    shape(rng, act)
    act["sent"] = [sending(rng, act["attached"])]
    if rng.random() < 0.5 and act["state"] != "in exec" and "leaderless" not in act:
        disposed(rng, act, longest)
    if rng.random() < 0.2:
        act["order"]["holds"] = 60
    if act["state"] == "frozen":
        act["sent"] = without_tracer(rng, act)


def race(rng, act, longest):
    """Two acts within a millisecond. The end of the process itself may be one of them."""
    shape(rng, act)
    act["sent"] = [sending(rng, act["attached"]) for _ in range(rng.choice([1, 2, 3]))]
    for one in act["sent"]:
        one["offset"] = rng.uniform(0, 0.001)
    if len(act["sent"]) == 1 or rng.random() < 0.3:
        act["state"] = "plain"
        act["order"].pop("in_exec", None)
        end = rng.choice(["exit", "exit", "abort", "fault", "kill"])
        act["own"] = {"end": end, "own": int(rng.choice([KILL, TERM]))}
        act["order"]["holds"] = rng.choice([0, 60])
    if act["state"] == "frozen":
        act["sent"] = without_tracer(rng, act)


def oom(rng, act, longest):
    act["layout"] = layout(rng)
    act["order"]["name"] = rng.choice(NAMES)
    act["order"]["threads"] = rng.choice([0, 3])
    act["own"] = {"end": "eat", "mib": 160}
    if rng.random() < 0.2:
        act["sent"] = [{**sending(rng, act["attached"]), "signal": int(KILL), "offset": rng.uniform(0, 0.05)}]


def own(rng, act, longest):
    shape(rng, act)
    act["state"] = "plain"
    act["order"].pop("in_exec", None)
    act["own"] = {
        "end": rng.choice(["exit", "exit", "abort", "fault", "kill", "tgkill"]),
        "own": int(rng.choice([KILL, TERM, INT, ABRT, SEGV, USR1])),
    }
    if rng.random() < 0.5 and "leaderless" not in act:
        disposed(rng, act, longest)


def timer(rng, act, longest):
    act["order"].update(timer=int(rng.choice([KILL, TERM, ALRM, USR1])), after=0.05 + gap(rng, longest))
    if rng.random() < 0.3:
        act["sent"] = [sending(rng, act["attached"])]


def parent(rng, act, longest):
    act["order"].update(
        between=rng.choice(["process", "thread"]),
        lives=STARTS + gap(rng, longest),
        pdeath=int(rng.choice([KILL, KILL, TERM])),
    )


def namespace(rng, act, longest):
    act["order"].update(between="namespace", lives=STARTS + gap(rng, longest))
    if rng.random() < 0.3:
        act["order"]["init_kills"] = int(rng.choice([KILL, TERM, SEGV]))
    elif rng.random() < 0.6:
        act["order"]["lives"] = 1000
        act["sent"] = [sending(rng, act["attached"])]
        act["at_init"] = rng.random() < 0.4


def saves(rng, act, longest):
    """The process ends by the handler of a signal, which takes its time."""
    disposed(rng, act, longest)
    number = int(rng.choice([TERM, TERM, INT, HUP]))
    act["before"]["signal"] = number
    act["order"].update(signals={str(number): rng.choice(["exits", "again"])}, saves=rng.uniform(0, longest))
    act["order"]["code"] = rng.choice([0, 1, number, 128 + number, 128 + number])


KIND = {function.__name__: function for function in (sent, race, oom, own, timer, parent, namespace, saves)}
