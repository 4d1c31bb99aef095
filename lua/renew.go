package lua

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
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
}

// What stands for the remaining time of a hold that has none to tell.
const (
	Failed time.Duration = -1 // its record could not be read; the other holds are not concerned
	Forced time.Duration = -2 // an administrator ended it
	Missed time.Duration = -3 // its own request failed; Renew's error is that of one such request, an unanswered one if there is any
)

// Renew runs renew.lua over all holds in one request. On a cluster, where all holds must be of one
// [Server.Node], each hold has a request of its own, and all are sent at once. The same happens if
// the server refuses the holds together. Each answer is the hold's remaining time, or Failed; 0
// means that the record does not have the hold, and [Server.Reassert] tells why. If there is an
// error, there are no answers, or some are Missed.
func (s *Server) Renew(ctx context.Context, holds []Renewal) ([]time.Duration, error) {
	if s.Sharded() && len(holds) > 1 {
		return s.renewEach(ctx, holds)
	}
	reply, err := s.run(ctx, renewScript, renewals(holds))
	if len(holds) > 1 && Answered(err) && !Passing(err) {
		return s.renewEach(ctx, holds) // it may be about one of the holds
	}
	if err != nil {
		return nil, err
	}
	return decodeRenewed(reply, len(holds))
}

// renewals is the command that renews all holds.
func renewals(holds []Renewal) []any {
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Keys.Record()
	}
	args := renewScript.on(keys, 4*len(holds))
	for _, h := range holds {
		args = append(args, h.Ticket.text, millis(h.Lease), h.Until.millis(), h.Depth)
	}
	return args
}

func decodeRenewed(reply []any, n int) ([]time.Duration, error) {
	r := reader{list: reply}
	left := make([]time.Duration, n)
	for i := range left {
		if len(r.list) > 0 && r.list[0] == int64(-1) {
			left[i], r.list = Failed, r.list[1:]
			continue
		}
		left[i] = r.millis()
	}
	return decoded(left, &r, "renew", reply)
}

// renewEach sends a request for each hold, all at once. The records lie in different slots: on a
// cluster, and on a cluster behind a single address (Redisson #6867). And if one record is damaged
// or forbidden, the other holds are not affected. If a node does not have the script, or no longer
// has the slot, the hold is asked for again, alone.
func (s *Server) renewEach(ctx context.Context, holds []Renewal) (left []time.Duration, failed error) {
	pipe := s.Node(holds[0].Keys).Pipeline()
	requests := make([]once, len(holds))
	for i := range holds {
		requests[i] = newOnce(ctx, renewals(holds[i:i+1]))
		_ = pipe.Process(ctx, requests[i]) // only noted, to be sent by Exec
	}
	_, err := pipe.Exec(ctx) // each has its error
	s.suspect(err)
	left = make([]time.Duration, len(holds))
	for i, request := range requests {
		one, err := renewedOne(request)
		if again := redis.HasErrorPrefix(err, "NOSCRIPT") || elsewhere(err); again && !Unanswered(failed) {
			one, err = s.Renew(ctx, holds[i:i+1])
		}
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			left[i] = Failed
		case err != nil:
			left[i] = Missed
			if failed == nil || Unanswered(err) {
				failed = err
			}
		default:
			left[i] = one[0]
		}
	}
	return left, failed
}

func renewedOne(request once) ([]time.Duration, error) {
	reply, err := request.Result()
	if err != nil {
		return nil, err
	}
	numbers, err := list(reply)
	if err != nil {
		return nil, err
	}
	return decodeRenewed(numbers, 1)
}

// Confirm runs renew.lua for one hold and waits for replicas to have the write: one round trip. The
// hold's remaining time is as in Renew.
func (s *Server) Confirm(ctx context.Context, h Renewal, need Replicas) (left time.Duration, got *Confirmed, err error) {
	reply, got, err := s.replicated(ctx, renewScript, h.Keys, renewals([]Renewal{h}), need)
	if err != nil {
		return 0, got, err
	}
	r := reader{list: reply}
	left, err = decoded(r.millis(), &r, "renew", reply)
	return left, got, err
}

// Reassert runs reassert.lua: one request. It renews h and keeps the token key alive. If the server
// has forgotten the hold, Reassert writes it again. 0 means that the hold is lost, Forced that an
// administrator ended it.
func (s *Server) Reassert(ctx context.Context, h Renewal) (time.Duration, error) {
	args := append(s.writing(reassertScript, h.Keys, 6), h.Ticket.text, h.Token, h.Since.millis(), millis(h.Lease), h.Until.millis(), h.Depth)
	reply, err := s.run(ctx, reassertScript, args)
	if err != nil {
		return 0, err
	}
	if len(reply) == 1 && reply[0] == int64(-1) {
		return Forced, nil
	}
	r := reader{list: reply}
	return decoded(r.millis(), &r, "reassert", reply)
}
