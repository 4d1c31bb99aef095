package lua

import (
	"context"
	"strings"
	"time"
)

// Protocol is the version of what the clients of one prefix have to agree on: the keys, what the
// scripts keep in them, and the messages. It grows with a change after which clients of before and
// of now may not share locks. docs/compatibility.md says how to change over.
const Protocol = 1

// ProtocolTTL is how long the server remembers the protocol. A Locker that makes contact begins
// that anew once half of it is over, so the protocol is kept for 45 days at least. That is longer
// than a process usually lives: only contact renews it.
const ProtocolTTL = 90 * 24 * time.Hour

// ProtocolKey is the key of the string that names the protocol of an application's locks, of both
// kinds.
func ProtocolKey(prefix string) string { return strings.TrimSuffix(prefix, plain) + ":protocol" }

// meeting reads the protocol that is kept, and keeps ours if there is none, or prolongs it at half
// its life. A client that may not write still reads. It is no verb, and is run by its text: once in
// a Locker's life.
//
//	KEYS[1]  the protocol's key
//	ARGV[1]  our protocol
//	ARGV[2]  for how long it is kept (ms)
//
// The reply is the protocol that was kept before, or ours if there was none. An error comes before
// anything is written.
const meeting = `
local kept = redis.call('GET', KEYS[1])
if not kept or kept == ARGV[1] and redis.call('PTTL', KEYS[1]) < ARGV[2] / 2 then
	redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	return ARGV[1]
end
return kept`

// Meet returns the protocol that the clients of this prefix use, which is ours if there is no other
// client. What is kept there is anybody's text. For a key that is no string the text is the
// server's error.
func (s *Server) Meet(ctx context.Context) (kept string, err error) {
	reply, err := s.Do(ctx, "eval", meeting, 1, ProtocolKey(s.Prefix()), Protocol, millis(ProtocolTTL))
	if err != nil && Answered(err) && strings.Contains(err.Error(), "WRONGTYPE") {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	kept, ok := reply.(string)
	if !ok {
		return "", WrongReply("meeting", reply)
	}
	return kept, nil
}
