package lua

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// values has values that no script writes, and some that a script might write.
var values = []string{
	"", "x", "y:z", "-1", "0", "1", "1.5", "1e300", "nan", "inf", "-inf", "0x10", " 7", "9007199254740990", "9007199254740991", "9007199254740992",
	"9223372036854775807", "9223372036854775808", "99999999999999999999999999", "1:1", "99999999999999999999:1", "9007199254740991:x", "\x00\xff",
	"b:1:30000::", "c:1:99999999999999999999::", "c:1:0::", "c:99999999999999999999999:30000:o:n", ":1:1::", "c 1:1:30000::",
}

// damage is one thing that somebody with rights to the keys may do to them.
func (l typed) damage(rng *rand.Rand) (what string) {
	l.t.Helper()
	pick := func(some ...string) string { return some[rng.IntN(len(some))] }
	value := pick(values...)
	element := pick(value, "7:"+value, fmt.Sprintf("%d:%s", math.MaxInt64, l.waiter), fmt.Sprintf("%d:%s", 1<<53-1, "c:1:30000::"))
	k, c := l.keys, l.rdb
	var err error
	switch rng.IntN(9) {
	case 0, 1, 2:
		field := pick("owner", "token", "since", "lease", "kept", l.hold, l.joint, "a:b", "junk", "c:1:30000::")
		what, err = fmt.Sprintf("HSET %s %q", field, value), c.HSet(ctx, k.Record(), field, value).Err()
	case 3:
		what, err = fmt.Sprintf("RPUSH %q", element), c.RPush(ctx, k.Queue(), element).Err()
	case 4:
		what, err = fmt.Sprintf("LPUSH %q", element), c.LPush(ctx, k.Queue(), element).Err()
	case 5:
		member := pick(l.waiter, "!"+l.waiter, "~b", "?b", "?", "#1", "", "junk", "c:1:30000::", value)
		score := []float64{math.Inf(1), math.Inf(-1), 1.5, -1.5, 1e300, -1e300, 0, 1 << 53}[rng.IntN(8)]
		what, err = fmt.Sprintf("ZADD %q %g", member, score), c.ZAdd(ctx, k.Waiters(), redis.Z{Score: score, Member: member}).Err()
	case 6:
		what, err = fmt.Sprintf("SET token %q", value), c.Set(ctx, k.Token(), value, usual).Err()
	case 7:
		key := pick(k.all()...)
		what, err = "PERSIST or a far end: "+key, c.PExpireAt(ctx, key, time.UnixMilli(1<<53)).Err()
		if rng.IntN(2) == 0 {
			err = c.Persist(ctx, key).Err()
		}
	default:
		key := pick(k.all()...)
		what, err = "DEL "+key, c.Del(ctx, key).Err()
	}
	must(l.t, err)
	return what
}

// Whatever stands in the keys, a script either answers as its contract says, or refuses and writes
// nothing.
func TestDamageIsHealedOrRefusedBeforeAnythingIsWritten(t *testing.T) {
	twice(t, func(t *testing.T, s *site) {
		programs := 150
		if s.mini == nil {
			programs = 100
		}
		for seed := range programs {
			rng := rand.New(rand.NewPCG(uint64(seed), 3)) // the same in every run
			s.untidy = false
			s.forgetAll()
			l := newTyped(s)
			l.a.sub.Close()
			s.untidy = true
			var trace []string
			for range 12 {
				for range rng.IntN(3) {
					trace = append(trace, l.damage(rng))
				}
				all := requests()
				r := all[rng.IntN(len(all))]
				trace = append(trace, r.name)
				before := s.dump()
				err := r.send(l)
				after := s.dump()
				if err != nil && (!redis.HasErrorPrefix(err, "WRONGTYPE the ") && !redis.HasErrorPrefix(err, "WRONGTYPE no ") || after != before) {
					t.Fatalf("seed %d: %q\n%v\nbefore:\n%safter:\n%s", seed, trace, err, before, after)
				}
			}
			must(t, l.b.sub.Close())
		}
	})
}

func TestALockWhoseRecordIsDamagedCanBeForcedAndGoesToTheNextInLine(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, fields := range [][]string{
			{"token", "y"},
			{"token", "9007199254740992"},
			{"lease", "x"},
			{"lease", "1e300"},
			{"since", "-"},
			{"a:b", "c"},
			{"kept", "x"},
			{"token", "nan", "lease", "nan", "since", "nan", "owner", "\x1b"},
		} {
			s.untidy = false
			s.forgetAll()
			a, b := s.party("a"), s.party("b")
			hold, _ := a.holds(usual)
			next, _ := b.waits(usual)
			must(t, s.rdb.HSet(ctx, s.keys.Record(), fields).Err())
			if slices.Contains(fields, "a:b") {
				must(t, s.rdb.HSet(ctx, s.keys.Record(), hold, "x").Err())
			}
			must(t, s.rdb.Persist(ctx, s.keys.Record()).Err())
			s.untidy = true
			state := b.inspects()
			equal(t, fmt.Sprint(fields, " is held"), state.Held, true)
			s.untidy = false
			forced, _ := b.forces(state.HeldToken)
			equal(t, fmt.Sprint(fields, " is forced"), forced, true)
			equal(t, "who has it", s.rdb.HExists(ctx, s.keys.Record(), next).Val(), true)
		}
	})
}

func TestARenewalGivesARecordThatWouldNeverEndAnEnd(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		a := s.party("a")
		ticket, token := a.holds(usual)
		r := a.renewal(ticket, token)
		must(t, s.rdb.Persist(ctx, s.keys.Record()).Err())
		r.Lease = time.Minute
		equal(t, "remaining", prolong(a, r), r.Lease)
		equal(t, "hold", s.field(ticket), fmt.Sprint(s.ends(s.keys.Record()), ":1"))
		must(t, s.rdb.PExpireAt(ctx, s.keys.Record(), time.UnixMilli(1<<53)).Err())
		equal(t, "remaining", prolong(a, r) > usual, true)
		equal(t, "ends within reach", s.ends(s.keys.Record()) < 1<<53, true)
	})
}

func TestAHoldOutlivesDamageToWhatStandsBesideIt(t *testing.T) {
	eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
		for _, field := range []string{"lease", "since", "owner", "a:b", "kept", "junk"} {
			for _, value := range values {
				s.untidy = false
				s.forgetAll()
				a := s.deaf("a")
				ticket, token := a.holds(usual)
				must(t, s.rdb.HSet(ctx, s.keys.Record(), field, value).Err())
				equal(t, fmt.Sprintf("%s %q: remaining", field, value), prolong(a, a.renewal(ticket, token)), usual)
			}
		}
	})
}

// spoiled calls test for each way in which a record can lose its end: PERSIST, and RESTORE with the
// time in another unit.
func spoiled(t *testing.T, test func(t *testing.T, spoil func(s *site))) {
	t.Helper()
	t.Run("no end", func(t *testing.T) {
		test(t, func(s *site) { must(t, s.rdb.Persist(ctx, s.keys.Record()).Err()) })
	})
	t.Run("far end", func(t *testing.T) {
		test(t, func(s *site) { must(t, s.rdb.PExpireAt(ctx, s.keys.Record(), time.UnixMilli(1<<53)).Err()) })
	})
}

func TestARecordThatLostItsEndIsNotCutToTheShorterOfItsHolds(t *testing.T) {
	spoiled(t, func(t *testing.T, spoil func(s *site)) {
		eachVerb(t, func(t *testing.T, s *site, prolong func(p *party, r Renewal) time.Duration) {
			a, b := s.party("a"), s.party("b")
			long, short := a.owned("o", time.Hour), b.owned("o", usual)
			token := a.takes(long)
			spoil(s)
			equal(t, "token", b.takes(short), token)
			want := s.field(long)
			equal(t, "after a hold more", fmt.Sprint(s.ends(s.keys.Record()), ":1"), want)
			spoil(s)
			equal(t, "remaining", prolong(b, b.renewal(short, token)), usual)
			equal(t, "after a renewal", fmt.Sprint(s.ends(s.keys.Record()), ":1"), want)
		})
	})
}

func TestARecordThatLostItsEndEndsWithItsHoldOnceSomebodyAsksForTheLock(t *testing.T) {
	spoiled(t, func(t *testing.T, spoil func(s *site)) {
		for what, asks := range map[string]func(b *party){
			"waits": func(b *party) { b.waits(usual) },
			"tries": func(b *party) { b.try(b.ticket(usual)) },
			"stays": func(b *party) { b.enter(b.ticket(usual), 1) },
		} {
			t.Run(what, func(t *testing.T) {
				each(t, func(t *testing.T, s *site) {
					hold, _ := s.party("a").holds(usual)
					spoil(s)
					asks(s.party("b"))
					equal(t, "ends", fmt.Sprint(s.ends(s.keys.Record()), ":1"), s.field(hold))
				})
			})
		}
	})
}
