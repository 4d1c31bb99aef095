package lua

import (
	"strings"
	"testing"
	"time"
)

func TestTheFirstClientOfAPrefixKeepsItsProtocolAndAllOthersReadIt(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		s.untidy = true
		server := NewServer(s.scripts, Channels("fairlock"), "a")
		key := ProtocolKey("fairlock")
		for range 2 {
			kept, err := server.Meet(ctx)
			must(t, err)
			if kept != "1" || s.rdb.Get(ctx, key).Val() != "1" {
				t.Errorf("%q is kept, and %q read", s.rdb.Get(ctx, key).Val(), kept)
			}
			if ttl := s.rdb.PTTL(ctx, key).Val(); ttl > ProtocolTTL || ttl < ProtocolTTL-time.Hour {
				t.Errorf("it is kept for %v", ttl)
			}
			must(t, s.rdb.PExpire(ctx, key, time.Hour).Err()) // the second contact prolongs it
		}
	})
}

func TestAnotherProtocolIsReadAndNotTouched(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		s.untidy = true
		server := NewPlainServer(s.scripts, Channels("fairlock"), "a")
		for _, other := range []string{"2", "", "nonsense"} {
			must(t, s.rdb.Set(ctx, ProtocolKey("fairlock"), other, time.Hour).Err())
			kept, err := server.Meet(ctx)
			must(t, err)
			if kept != other || s.rdb.Get(ctx, ProtocolKey("fairlock")).Val() != other || s.rdb.PTTL(ctx, ProtocolKey("fairlock")).Val() > time.Hour {
				t.Errorf("%q became %q, read as %q", other, s.rdb.Get(ctx, ProtocolKey("fairlock")).Val(), kept)
			}
		}
		must(t, s.rdb.Del(ctx, ProtocolKey("fairlock")).Err())
		must(t, s.rdb.LPush(ctx, ProtocolKey("fairlock"), "x").Err())
		if kept, err := server.Meet(ctx); err != nil || !strings.Contains(kept, "WRONGTYPE") {
			t.Errorf("of a list: %q, %v", kept, err)
		}
	})
}
