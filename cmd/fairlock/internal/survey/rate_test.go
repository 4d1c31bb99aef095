package survey

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/locks/fairlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// schedule has the times at which holds of a lock begin and end, in order.
type schedule struct{ since, until []time.Duration }

// at returns the holder that a look finds at the time d.
func (s schedule) at(d time.Duration) *fairlock.Holder {
	for i, since := range s.since {
		if since <= d && d < s.until[i] {
			return &fairlock.Holder{Owner: "a", Token: int64(i + 1), Held: d - since.Truncate(time.Millisecond)}
		}
	}
	return nil
}

// plays lets hold and gap alternate for some minutes.
func plays(hold, gap func() time.Duration) (s schedule) {
	for now := time.Duration(0); now < 5*time.Minute; {
		s.since = append(s.since, now)
		now += hold()
		s.until = append(s.until, now)
		now += gap()
	}
	return s
}

// looked returns the mean of the rates shown by all looks.
func looked(s schedule, every time.Duration) float64 {
	var m Rates
	var sum float64
	n := 0
	for now := time.Duration(0); now < 5*time.Minute; now += every {
		p := &Picture{At: time.Unix(0, 0).Add(now), Locks: []Lock{{Name: "x", Holder: s.at(now)}}}
		m.Add(p)
		if len(m.past) == remembered && p.Locks[0].Holder != nil {
			sum += p.Locks[0].Rate
			n++
		}
	}
	return sum / float64(max(n, 1))
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestHandOversAreCountedWhereHoldsAreLongAndWorkedOutWhereTheyAreShort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	about := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(float64(d) * (0.5 + random.Float64())) }
	}
	for _, c := range []struct {
		what      string
		hold, gap func() time.Duration
		want      float64
	}{
		{"a minute each", about(time.Minute), always(0), 1.0 / 60},
		{"ten seconds each", about(10 * time.Second), always(0), 0.1},
		{"as long as looks are apart", about(2500 * time.Millisecond), always(0), 0.4},
		{"100 ms each", about(100 * time.Millisecond), always(0), 10},
		{"5 ms each", about(5 * time.Millisecond), always(0), 200},
		{"100 ms each, free half of the time", about(100 * time.Millisecond), about(100 * time.Millisecond), 5},
	} {
		if got := looked(plays(c.hold, c.gap), 2537*time.Millisecond); math.Abs(got-c.want) > c.want/3 {
			t.Errorf("%s: %.3f hand-overs a second, in truth %.3f", c.what, got, c.want)
		}
	}
}

func TestALockThatNobodyHandsOnHasNoHandOvers(t *testing.T) {
	if got := looked(plays(always(time.Hour), always(0)), time.Second); got != 0 {
		t.Errorf("%v", got)
	}
	var m Rates
	p := &Picture{At: time.Now(), Locks: []Lock{{Name: "x", Holder: &fairlock.Holder{Token: 1}}, {Name: "y"}}}
	if m.Add(p); p.Totals().Rate != 0 {
		t.Errorf("after one look: %+v", p.Totals())
	}
}

func TestAPauseBetweenLooksLowersNoRateForMoreThanALook(t *testing.T) {
	var m Rates
	look := func(at time.Duration, token int64) float64 {
		p := &Picture{At: time.Unix(0, 0).Add(at), Locks: []Lock{{Name: "x", Holder: &fairlock.Holder{Token: token, Held: time.Millisecond}}}}
		m.Add(p)
		return p.Locks[0].Rate
	}
	for i := range 3 {
		look(time.Duration(i)*time.Second, int64(1+i/2)) // a holder each two seconds
	}
	later := 10 * time.Minute
	look(later, 700)
	if rate := look(later+time.Second, 701); math.Abs(rate-1) > 0.1 {
		t.Errorf("after the pause it shows %.3f hand-overs a second, of one", rate)
	}
}
