package explore

// These programs say what a client does with its tickets: lock and unlock, or give up waiting, one
// after the other, two at once, or try.
var (
	absentee = program{}
	once     = program{tickets: 1}
	fickle   = program{tickets: 1, cancels: true}
	inTurn   = program{tickets: 2}
	atOnce   = program{tickets: 2, parallel: true}
	// The tickets of a crowd wait together, and its callers give up.
	crowd = program{tickets: 2, parallel: true, cancels: true, lingers: true}
	hasty = program{tickets: 1, tries: true}
	// A slow client takes time between a grant and its Lease.
	slow = program{tickets: 1, cancels: true, lingers: true}
)

// every allows each fault once.
var every = budget{delay: 1, lose: 1, late: 1, twice: 1, deaf: 1, crash: 1, stop: 1, dropped: 1, doubled: 1, flush: 1}

// with is b with this many jumps of time, and this many faults in all.
func (b budget) with(ticks, faults int8) budget {
	b.ticks, b.faults = ticks, faults
	return b
}

// all is a scenario of three clients with the same program.
func all(p program, b budget) scenario {
	return scenario{programs: [clients]program{p, p, p}, budget: b}
}

// mixed is a scenario of three clients.
func mixed(a, b, c program, u budget) scenario {
	return scenario{programs: [clients]program{a, b, c}, budget: u}
}

// named returns sc under another name.
func (sc scenario) named(name string) scenario {
	sc.name = name
	return sc
}

// owned has these tickets share the explicit owner. Each ticket is a bit.
func (sc scenario) owned(sagas uint8) scenario {
	sc.sagas = sagas
	return sc
}

// notYetHeard starts with no client subscribed.
func (sc scenario) notYetHeard() scenario {
	sc.deaf = true
	return sc
}

// clockSetBack sets the server's clock behind every token.
func (sc scenario) clockSetBack() scenario {
	sc.behind = true
	return sc
}

// closing is b, and one client may be closed.
func (b budget) closing() budget {
	b.closed = 1
	return b
}

// forced is b, and an administrator may force the lock n times.
func (b budget) forced(n int8) budget {
	b.force = n
	return b
}

// kept is b without a loss of data.
func (b budget) kept() budget {
	b.flush = 0
	return b
}

// scenarios let every kind of fault meet every other, and each of them the calls of three clients.
// The long scenarios come first.
var scenarios = []scenario{
	mixed(inTurn, inTurn, absentee, every.with(1, 1)).named("one ticket after the other"),
	mixed(atOnce, once, absentee, every.with(1, 1)).named("two tickets of a client"),
	mixed(atOnce, once, absentee, budget{delay: 1, late: 1, doubled: 1}.with(0, 1).forced(1)).named("a run, forced"),
	mixed(atOnce, atOnce, absentee, budget{delay: 1, dropped: 1, crash: 1}.with(0, 1)).named("two runs"),
	mixed(crowd, once, absentee, budget{delay: 1, lose: 1, doubled: 1}.with(1, 1)).named("a run that gives up"),
	mixed(crowd, once, absentee, budget{delay: 1}.with(0, 1).closing()).named("a run that is closed"),
	mixed(fickle, fickle, absentee, every.with(1, 2)).named("two clients, any two faults"),
	mixed(fickle, fickle, once, every.with(1, 1)).owned(1<<0 | 1<<2).named("an owner in two processes"),
	all(fickle, every.with(1, 1)).named("three clients, any fault"),
	all(once, budget{late: 1, flush: 1}.with(1, 2)).named("three clients, late, and forgotten"),
	all(once, budget{flush: 1, crash: 1, deaf: 1, dropped: 1}.with(1, 2)).named("three clients, killed or deaf, and forgotten"),
	all(once, budget{delay: 1, lose: 1, late: 1, twice: 1}.with(0, 2)).named("three clients, a bad network"),
	all(once, budget{deaf: 1, stop: 1, crash: 1, doubled: 1}.with(1, 2)).named("three clients, bad processes"),
	mixed(atOnce, once, once, budget{deaf: 1, crash: 1}.with(0, 1)).named("two tickets of a client and two others"),
	mixed(once, once, absentee, every.with(1, 1).forced(1)).named("forced"),
	all(once, budget{late: 1, flush: 1}.with(1, 1).forced(1)).named("three clients, forced"),
	all(once, budget{deaf: 1, crash: 1}.with(1, 1)).notYetHeard().named("not yet heard"),
	mixed(once, once, absentee, every.kept().with(1, 1).forced(1)).clockSetBack().named("clock set back"),
	mixed(hasty, hasty, once, every.with(1, 1)).named("some try"),
	mixed(slow, slow, absentee, every.with(1, 1).closing()).named("callers that vanish, and a client that is closed"),
	all(slow, budget{delay: 1}.with(0, 1).closing()).named("three callers that vanish, and a client that is closed"),
	mixed(atOnce, once, absentee, budget{delay: 1, lose: 1}.with(0, 1).closing()).named("two tickets of a client that is closed"),
	mixed(slow, slow, absentee, budget{delay: 1}.with(1, 1).closing().forced(1)).named("closed and forced"),
	mixed(fickle, fickle, absentee, budget{lose: 1, swallowed: 1, tired: 1}.with(2, 2)).named("leaves that do not get through"),
	all(once, budget{forged: 1}.with(1, 1)).named("messages about another lock"),
}
