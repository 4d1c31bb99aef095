package locks

import (
	"slices"
	"strconv"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/lua"
)

// Record is a lock as JSON shows it. The names of its fields must stay. Durations are whole
// milliseconds. Times are in RFC 3339 and UTC, by the server's clock. What is in base64 is there
// only if the text is not UTF-8.
type Record struct {
	Name    string         `json:"name"`
	Name64  string         `json:"name_base64,omitempty"`
	Kind    string         `json:"kind"`              // "fair", "plain", "redisson" or "quorum"
	Token   int64          `json:"token"`             // the largest given so far; 0 if the lock was not used for some minutes
	Holder  *HolderRecord  `json:"holder"`            // null: the lock is free
	Waiting int            `json:"waiting"`           // length of the line; 0 for a plain lock, whose waiters only their own process knows
	Waiters []WaiterRecord `json:"waiters,omitempty"` // in order; ls leaves them out
	Damaged string         `json:"damaged,omitempty"` // what in its keys makes no sense
	Nodes   []NodeRecord   `json:"nodes,omitempty"`   // what each node of a quorum says; ls leaves them out
}

// NodeRecord is what one node of a quorum says of a lock.
type NodeRecord struct {
	Node       string        `json:"node"`
	Error      string        `json:"error,omitempty"` // why it says nothing
	Vote       *HolderRecord `json:"vote"`            // who has its vote; null: nobody
	Decided    bool          `json:"decided"`         // whoever has its vote has a majority, and it knows that
	Token      int64         `json:"token"`           // the largest that it knows
	Waiting    int           `json:"waiting"`         // length of its line
	Quarantine int64         `json:"quarantine_ms"`   // for how long it grants nothing, because it may have forgotten what it granted
}

// HolderRecord is the holder of a lock.
type HolderRecord struct {
	Owner     string    `json:"owner"` // "" while the server, having lost data, waits for the holder to return
	Owner64   string    `json:"owner_base64,omitempty"`
	Note      string    `json:"note"`
	Note64    string    `json:"note_base64,omitempty"`
	Token     int64     `json:"token"`          // 0 while undecided
	Holds     int       `json:"holds"`          // calls that hold it; more than one only with an explicit owner
	Depth     int       `json:"depth"`          // leases on it, including nested ones
	Since     time.Time `json:"since,omitzero"` // not known of Redisson's
	Held      int64     `json:"held_ms"`
	Remaining int64     `json:"remaining_ms"` // until the lock is free if no holder renews it

	// Undecided says, of a quorum's lock, that no node knows yet whether the holder knows of its
	// majority.
	Undecided bool `json:"undecided,omitempty"`
}

// WaiterRecord is one place in line.
type WaiterRecord struct {
	Place   int       `json:"place"` // 1 is next
	ID      string    `json:"id"`    // for fairlock evict
	Owner   string    `json:"owner"`
	Owner64 string    `json:"owner_base64,omitempty"`
	Note    string    `json:"note"`
	Note64  string    `json:"note_base64,omitempty"`
	Since   time.Time `json:"since,omitzero"` // not known of Redisson's
	Waited  int64     `json:"waited_ms"`
}

// NewRecord returns the state of a lock as a record.
func NewRecord(kind string, s *fairlock.State) *Record {
	r := &Record{Name: s.Name, Name64: look.Base64(s.Name), Kind: kind, Token: s.Token, Holder: newHolderRecord(s.Holder), Waiting: s.Waiting}
	if s.Damaged != nil {
		r.Damaged = s.Damaged.Error()
	}
	for i, w := range s.Waiters {
		r.Waiters = append(r.Waiters, WaiterRecord{
			Place: i + 1, ID: w.ID, Owner: w.Owner, Note: w.Note, Since: w.Since.UTC(), Waited: w.Waited.Milliseconds(),
			Owner64: look.Base64(w.Owner), Note64: look.Base64(w.Note),
		})
	}
	for _, n := range s.Nodes {
		r.Nodes = append(r.Nodes, newNodeRecord(n))
	}
	return r
}

func newNodeRecord(n fairlock.NodeView) NodeRecord {
	r := NodeRecord{
		Node: n.Node, Vote: newHolderRecord(n.Vote), Decided: n.Decided, Token: n.Token, Waiting: n.Waiting,
		Quarantine: n.Quarantine.Milliseconds(),
	}
	if n.Err != nil {
		r.Error = lua.Redacted(n.Err.Error())
	}
	return r
}

func newHolderRecord(h *fairlock.Holder) *HolderRecord {
	if h == nil {
		return nil
	}
	r := &HolderRecord{
		Owner: h.Owner, Note: h.Note, Token: h.Token, Holds: h.Holds, Depth: h.Depth, Since: h.Since.UTC(),
		Held: h.Held.Milliseconds(), Remaining: h.Remaining.Milliseconds(), Undecided: h.Undecided,
		Owner64: look.Base64(h.Owner), Note64: look.Base64(h.Note),
	}
	if h.Undecided {
		r.Token = 0 // the Lease may have that of any of the votes
	}
	return r
}

// Idle reports whether the lock is free, nobody waits for it, and there is nothing else to say of
// it.
func (r *Record) Idle() bool { return r.Holder == nil && r.Waiting == 0 && r.Damaged == "" }

// OlderThan compares the times since when two locks are held; free locks come last. It does not
// compare how long they are held, because that was read at different times.
func (r *Record) OlderThan(other *Record) int {
	switch {
	case r.Holder != nil && other.Holder != nil:
		return r.Holder.Since.Compare(other.Holder.Since)
	case r.Holder != nil:
		return -1
	case other.Holder != nil:
		return 1
	}
	return 0
}

// Remaining returns the remaining time of the hold, or 0 for a free lock.
func (r *Record) Remaining() int64 {
	if r.Holder == nil {
		return 0
	}
	return r.Holder.Remaining
}

// Who names the holder for people: by its note if there is one.
func (h *HolderRecord) Who() string {
	switch {
	case h == nil:
		return "-"
	case h.Note != "":
		return output.Clean(h.Note)
	case h.Owner == "":
		return "(not known: the server has lost data)"
	}
	return output.Clean(h.Owner)
}

// HasToken reports whether the lock is held with that token. While the holder is undecided, its
// Lease may have the token of any of its votes.
func (r *Record) HasToken(token int64) bool {
	switch {
	case r.Holder == nil:
		return false
	case !r.Holder.Undecided:
		return r.Holder.Token == token
	}
	return slices.ContainsFunc(r.Nodes, func(n NodeRecord) bool {
		return n.Vote != nil && n.Vote.Owner == r.Holder.Owner && n.Vote.Token == token
	})
}

// TokenOrWhy says for people which token the holder has.
func (h *HolderRecord) TokenOrWhy() string {
	if h.Undecided {
		return "not known yet: the call is not decided at any node"
	}
	return strconv.FormatInt(h.Token, 10)
}

// Who names the waiter for people. The id is shown in a column of its own.
func (w *WaiterRecord) Who() string { return output.Clean(look.Waiter(w.ID, w.Owner, w.Note)) }
