package simulate

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func plan(seed uint64) Plan {
	return Plan{Seed: seed, Plain: seed%8 == 7, Length: 15 * time.Minute, Clients: 3 + int(seed%3), Actors: 3, Names: 2 + int(seed%2), Latency: time.Millisecond}
}

func TestSmall(t *testing.T) {
	from, to := 1, 4
	if v := os.Getenv("SEED"); v != "" {
		from, _ = strconv.Atoi(v)
		to = from
	}
	if v := os.Getenv("SEEDTO"); v != "" {
		to, _ = strconv.Atoi(v)
	}
	for s := from; s <= to; s++ {
		t.Run(strconv.Itoa(s), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := plan(uint64(s))
				if os.Getenv("ECHO") != "" {
					p.Echo = func(s string) { os.Stderr.WriteString(s + "\n") }
				}
				o := Run(p)
				t.Log(o.Stats)
				t.Logf("digest %x", o.Digest)
				for i, v := range o.Violations {
					if i < 3 {
						t.Error(v)
					}
				}
				if len(o.Violations) > 0 {
					t.Log(o.Tail)
				}
			})
		})
	}
}
