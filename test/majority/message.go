package majority

// push is a message of a node to a client.
type push struct {
	news  news
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
