package majority

// push is a message of a node to a client.
type push struct {
	news  news
	node  int8
	call  int8 // whose channel, and about whom
	token int64
	at    int64 // grants: us
}

type news int8

const (
	grants news = iota
	wants
	forces
	evicts
)

// msg is a request or an answer on its way. Requests of one call to one node need not be executed
// in the order in which they were sent: they may use several connections.
type msg struct {
	what       what
	call, node int8
	orphan     bool // its call was told that there is no answer
	late       bool // leaves: late requests are to be refused
	round      bool // renews: of all nodes
	sent       int64
	place      int64
	back       int64
	token      int64
	vote       int64
	session    int8
	answer     answer
}

// by is who has the call leave, of a leave.
func (m *msg) by() taking {
	switch m.what {
	case forcedLeaves:
		return byForce
	case evictions:
		return eviction
	default:
		return itself
	}
}

// admins reports whether an administrator sent it: no call awaits the answer.
func (m *msg) admins() bool { return m.what == forcedLeaves || m.what == evictions }

type what int8

const (
	enters what = iota
	beats
	tells
	renews
	leaves
	forcedLeaves
	evictions
	requests // the first that is none
	answersEnter
	answersBeat
	answersTell
	answersRenew
)
