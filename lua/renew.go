package lua

import (
	"context"
	"fmt"
	"time"
)

// MaxRenewals is the most holds that one Renew may carry.
const MaxRenewals = 200

// Renewal prolongs one hold: to Lease from now or until Until, whichever is later. Nothing ever
// shortens a hold.
type Renewal struct {
	Keys   Keys
	Ticket Ticket
	Token  int64
	Since  Micros
	Lease  time.Duration // 0: as it is
	Until  Micros        // 0: none
	Depth  int
	Turn   Ticket // the ticket that has its turn on the hold; zero: the hold's own
}

// depth is what the record says of the hold's use: the depth, and the ticket whose turn it is.
func (r Renewal) depth() any {
	if r.Turn.text == "" {
		return r.Depth
	}
	return fmt.Sprintf("%d:%s", r.Depth, r.Turn.text)
}

// Renewed is what became of one Renewal.
type Renewed struct {
	Remaining time.Duration // how long the record still has the hold; 0: it does not have it
	Forced    bool          // that is because an administrator ended the hold: a Reassert tells
	Err       error         // this hold was not answered for
	Count     uint64        // of who counts the votes of several servers: which count said so; else 0
}

// Renew runs renew.lua over all holds in one request. On a cluster, where all holds must be of one
// [Server.Node], each hold has a request of its own, and all are sent at once. The same happens if
// the server refuses the holds together. The answers are in the order of the holds, and one hold's
// error concerns no other: [WrongType] says that its record could not be read. If a record does not
// have the hold, [Server.Reassert] tells why.
func (s *Server) Renew(ctx context.Context, holds []Renewal) []Renewed {
	if s.Sharded() && len(holds) > 1 {
		return s.renewEach(ctx, holds)
	}
	reply, err := s.run(ctx, renewScript, renewals(holds))
	if len(holds) > 1 && Answered(err) && !Passing(err) {
		return s.renewEach(ctx, holds) // it may be about one of the holds
	}
	return decodeRenewed(reply, err, len(holds))
}

// WrongType reports whether err is the server's refusal of a key that has a value of another type.
func WrongType(err error) bool { return Says(err, "WRONGTYPE") }

// renewals is the command that renews all holds.
func renewals(holds []Renewal) []any {
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Keys.Record()
	}
	args := renewScript.on(keys, 4*len(holds))
	for _, h := range holds {
		args = append(args, h.Ticket.text, millis(h.Lease), h.Until.millis(), h.depth())
	}
	return args
}

func decodeRenewed(reply []any, err error, n int) []Renewed {
	r := reader{list: reply}
	all := make([]Renewed, n)
	for i := 0; err == nil && i < n; i++ {
		all[i].Remaining = r.millis()
	}
	if err == nil {
		_, err = decoded(all, &r, "renew", reply)
	}
	for i := 0; err != nil && i < n; i++ {
		all[i] = Renewed{Err: err}
	}
	return all
}

// renewEach sends a request for each hold, all at once. The records lie in different slots: on a
// cluster, and on a cluster behind a single address (Redisson #6867). And if one record is damaged
// or forbidden, the other holds are not affected. If a node does not have the script, or no longer
// has the slot, the hold is asked for again, alone.
func (s *Server) renewEach(ctx context.Context, holds []Renewal) []Renewed {
	to := s.rdb
	if node := s.Node(holds[0].Keys); node != nil {
		to = node
	}
	pipe := to.Pipeline()
	requests := make([]once, len(holds))
	for i := range holds {
		requests[i] = newOnce(ctx, renewals(holds[i:i+1]))
		_ = pipe.Process(ctx, requests[i]) // only noted, to be sent by Exec
	}
	all := make([]Renewed, len(holds))
	var err error
	if kept := s.bounded(ctx, MostKept, func() { err = exec(ctx, pipe) }); kept != nil {
		for i := range all {
			all[i].Err = kept
		}
		return all
	}
	s.reloadSlots(err)
	silent := false // a request that is sent now may go unanswered, too
	for i, request := range requests {
		all[i] = renewedOne(request)
		if again := Says(all[i].Err, "NOSCRIPT") || elsewhere(all[i].Err); again && !silent {
			all[i] = s.Renew(ctx, holds[i:i+1])[0]
		}
		silent = silent || Unanswered(all[i].Err)
	}
	return all
}

func renewedOne(request once) Renewed {
	reply, err := request.Result()
	var numbers []any
	if err == nil {
		numbers, err = list(reply)
	}
	return decodeRenewed(numbers, err, 1)[0]
}

// Confirm is Renew for one hold. It waits for replicas to have the write: one round trip.
func (s *Server) Confirm(ctx context.Context, h Renewal, need Replicas) (Renewed, *Confirmed) {
	reply, got, err := s.replicated(ctx, renewScript, h.Keys, renewals([]Renewal{h}), need)
	return decodeRenewed(reply, err, 1)[0], got
}

// Reassert runs reassert.lua: one request. It renews h and keeps the token key alive. If the server
// has forgotten the hold, Reassert writes it again. If the record does not have the hold then, the
// hold is lost.
func (s *Server) Reassert(ctx context.Context, h Renewal) Renewed {
	args := append(s.writing(reassertScript, h.Keys, 6), h.Ticket.text, h.Token, h.Since.millis(), millis(h.Lease), h.Until.millis(), h.depth())
	reply, err := s.run(ctx, reassertScript, args)
	if err != nil {
		return Renewed{Err: err}
	}
	if len(reply) == 1 && reply[0] == int64(-1) {
		return Renewed{Forced: true}
	}
	r := reader{list: reply}
	left, err := decoded(r.millis(), &r, "reassert", reply)
	return Renewed{Remaining: left, Err: err}
}
