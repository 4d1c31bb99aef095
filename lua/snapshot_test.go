package lua

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// entry is one key with its content.
type entry struct {
	key     string
	content any // map[string]string, []string, []redis.Z or string
	ends    int64
}

// snapshot returns everything on the server, in the order of the keys.
func (s *site) snapshot() []entry {
	s.t.Helper()
	keys, err := s.rdb.Keys(ctx, "*").Result()
	must(s.t, err)
	slices.Sort(keys)
	var all []entry
	for some := range slices.Chunk(keys, 8) { // the pipe of the embedded server has no room for more
		all = append(all, s.entries(some)...)
	}
	return all
}

func (s *site) entries(keys []string) []entry {
	s.t.Helper()
	kinds := make([]*redis.StatusCmd, len(keys))
	ends := make([]*redis.DurationCmd, len(keys))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			kinds[i], ends[i] = p.Type(ctx, key), p.PExpireTime(ctx, key)
		}
		return nil
	})
	must(s.t, err)
	contents := make([]redis.Cmder, len(keys))
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			if ends[i].Val() == -2 { // it has ended since it was listed
				continue
			}
			contents[i] = map[string]func() redis.Cmder{
				"hash":   func() redis.Cmder { return p.HGetAll(ctx, key) },
				"list":   func() redis.Cmder { return p.LRange(ctx, key, 0, -1) },
				"zset":   func() redis.Cmder { return p.ZRangeWithScores(ctx, key, 0, -1) },
				"string": func() redis.Cmder { return p.Get(ctx, key) },
			}[kinds[i].Val()]()
		}
		return nil
	})
	if !errors.Is(err, redis.Nil) { // of a string that has ended since
		must(s.t, err)
	}
	var all []entry
	for i, key := range keys {
		e := entry{key, nil, ends[i].Val().Milliseconds()}
		switch c := contents[i].(type) {
		case nil:
			continue
		case *redis.MapStringStringCmd:
			e.content = c.Val()
		case *redis.StringSliceCmd:
			e.content = c.Val()
		case *redis.ZSliceCmd:
			e.content = c.Val()
		case *redis.StringCmd:
			e.content = c.Val()
		}
		all = append(all, e)
	}
	return all
}

// dump returns everything on the server as text, with its time of expiry.
func (s *site) dump() string { s.t.Helper(); return text(s.snapshot()) }

func text(all []entry) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s until %d: ", e.key, e.ends)
		if members, ok := e.content.([]redis.Z); ok {
			for _, z := range members {
				fmt.Fprintf(&b, "%.0f %s, ", z.Score, z.Member)
			}
		} else {
			fmt.Fprintf(&b, "%q", e.content) // prints a map in the order of its fields
		}
		b.WriteString("\n")
	}
	return b.String()
}

// unchanged fails if act changes anything on the server.
func (s *site) unchanged(act func()) {
	s.t.Helper()
	before := s.dump()
	act()
	if after := s.dump(); after != before {
		s.t.Fatalf("before:\n%safter:\n%s", before, after)
	}
}

var short = regexp.MustCompile(`\de\+\d`)

// check checks what must hold after every script: all keys expire, no number is cut short, the line
// is in the order of its places, and it has exactly the tickets with a deadline.
func (s *site) check() {
	s.t.Helper()
	if s.untidy || s.t.Failed() {
		return
	}
	all := s.snapshot()
	var listed, waiting []string
	last, ordered, endless := int64(0), true, false
	for _, e := range all {
		endless = endless || e.ends <= 0
		switch content := e.content.(type) {
		case []string:
			for _, element := range content {
				digits, ticket, _ := strings.Cut(element, ":")
				place, err := strconv.ParseInt(digits, 10, 64)
				ordered = ordered && err == nil && place >= last
				last, listed = place, append(listed, ticket)
			}
		case []redis.Z:
			for _, z := range content {
				if z.Score >= 0 {
					waiting = append(waiting, z.Member.(string))
				}
			}
		}
	}
	slices.Sort(waiting)
	slices.Sort(listed)
	seen := text(all)
	for fault, there := range map[string]bool{
		"a key without an end": endless, "a number that lost its digits": short.MatchString(seen), "a line out of order": !ordered,
		"a line that disagrees with its deadlines": !slices.Equal(waiting, listed),
	} {
		if there {
			s.t.Fatalf("%s:\n%s", fault, seen)
		}
	}
}
