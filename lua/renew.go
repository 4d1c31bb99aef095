package lua

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// MaxRenewals is the most holds that one Renew may carry.
const MaxRenewals = 200

// Renewal prolongs one hold: to Lease from now or until Until, whichever is later. Nothing ever shortens a hold.
type Renewal struct {
	Keys   Keys
	Ticket string
	Token  int64
	Since  Micros
	Lease  time.Duration // 0: as it is
	Until  Micros        // 0: none
	Depth  int
}

// What stands for the remaining time of a hold that has none to tell.
const (
	Failed time.Duration = -1 // its record could not be read; this does not concern the others
	Forced time.Duration = -2 // an administrator ended it
)

// Renew runs renew.lua over all of them in one request. Each answer is the hold's remaining time, 0 where the record
// does not have it: [Server.Reassert] tells why, or Failed.
func (s *Server) Renew(ctx context.Context, holds []Renewal) ([]time.Duration, error) {
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Keys.Record
	}
	args := renewScript.on(keys, 4*len(holds))
	for _, h := range holds {
		args = append(args, h.Ticket, millis(h.Lease), h.Until.millis(), h.Depth)
	}
	reply, err := s.run(ctx, renewScript, args)
	if redis.HasErrorPrefix(err, "CROSSSLOT") && len(holds) > 1 {
		return s.renewEach(ctx, holds)
	}
	if err != nil {
		return nil, err
	}
	r := reader{list: reply}
	left := make([]time.Duration, len(holds))
	for i := range left {
		if len(r.list) > 0 && r.list[0] == int64(-1) {
			left[i], r.list = Failed, r.list[1:]
			continue
		}
		left[i] = r.millis()
	}
	return decoded(left, &r, "renew", reply)
}

// renewEach serves deployments behind one address that are clusters inside (Redisson #6867).
func (s *Server) renewEach(ctx context.Context, holds []Renewal) ([]time.Duration, error) {
	left := make([]time.Duration, len(holds))
	for i, h := range holds {
		one, err := s.Renew(ctx, []Renewal{h})
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			left[i] = Failed
		case err != nil:
			return nil, err
		default:
			left[i] = one[0]
		}
	}
	return left, nil
}

// Confirm runs renew.lua for one hold and waits for replicas to have it: one round trip. The hold's remaining time is as
// in Renew.
func (s *Server) Confirm(ctx context.Context, h Renewal, need Replicas) (left time.Duration, got Confirmed, err error) {
	args := append(renewScript.on([]string{h.Keys.Record}, 4), h.Ticket, millis(h.Lease), h.Until.millis(), h.Depth)
	reply, got, err := s.replicated(ctx, renewScript, args, need)
	if err != nil {
		return 0, got, err
	}
	r := reader{list: reply}
	left, err = decoded(r.millis(), &r, "renew", reply)
	return left, got, err
}

// Reassert runs reassert.lua: one request. It renews h, keeps the token key alive and, where the server has forgotten
// the hold, writes it again. 0 means that the hold is lost, Forced that it was forced.
func (s *Server) Reassert(ctx context.Context, h Renewal) (time.Duration, error) {
	args := append(reassertScript.on(h.Keys.all(), 6), h.Ticket, h.Token, h.Since.millis(), millis(h.Lease), h.Until.millis(), h.Depth)
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
