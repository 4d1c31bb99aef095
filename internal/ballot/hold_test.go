package ballot

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fairlock/locks/internal/rules"
	"github.com/fairlock/locks/lua"
)

// ahead is a vote whose token is further ahead of its node's clock than a claim.
func ahead(token int64) *Answer {
	return &Answer{Status: Granted, Now: 1, Left: time.Second, Place: 5, Token: token, Since: 1}
}

func TestAMessageIsBelievedLongerTheLaterTheCallWasFoundInLine(t *testing.T) {
	const claim = 3 * time.Second
	began := time.Now()
	at := func(after time.Duration) lua.Micros { return lua.Micros(1e12 + after.Microseconds()) }
	for _, beats := range []time.Duration{0, 19 * time.Second} {
		b := New(3, claim, 0, began)
		for i := range 2 {
			b.Enter(i)
			b.Entered(i, false)
			b.Answered(i, &Answer{Status: Waits, Now: at(0), Place: 5}, rules.ClockPair{At: at(0), Sent: began}, began)
			b.Stood(i, rules.ClockPair{At: at(beats), Sent: began.Add(beats)})
			b.Stood(i, rules.ClockPair{At: at(beats / 2), Sent: began.Add(beats / 2)}) // overtaken
		}
		now := began.Add(20 * time.Second)
		for i := range 2 {
			b.Heard(i, &lua.Message{News: lua.Grants, At: at(20 * time.Second), Claim: claim, Token: 7}, now, 0)
		}
		v := b.Judge(now, func(int) bool { return false })
		if v.Do != Hold {
			t.Fatalf("%+v", v)
		}
		// A tenth of the time between counts as lost, and a tenth of the claim is the margin.
		want := claim - (20*time.Second-beats)/10 - claim/10
		if left := v.Term.TrustEnds().Sub(now); left != want {
			t.Errorf("found in line after %v: trust for %v, want %v", beats, left, want)
		}
	}
}

func TestAVoteThatCameLongBeforeTheOthersDoesNotDecideButComesAnew(t *testing.T) {
	const claim = 3 * time.Second
	began := time.Now()
	there := func(int) bool { return false }
	for apart, do := range map[time.Duration]Do{claim / 2: Hold, 8*claim/10 - 1: Hold, 8 * claim / 10: Wait} {
		b := New(3, claim, 0, began)
		vote := func(i int, token int64, now time.Time) {
			b.Enter(i)
			b.Entered(i, false)
			b.Answered(i, &Answer{Status: Granted, Now: 1, Left: claim, Place: 5, Token: token, Since: lua.Micros(token)}, rules.ClockPair{At: 1, Sent: now}, now)
		}
		vote(0, 1, began)
		vote(1, 2, began.Add(apart))
		if v := b.Judge(began.Add(apart), there); v.Do != do {
			t.Errorf("%v later: %+v", apart, v)
		}
		if do == Hold {
			continue
		}
		now := b.Ends().Add(time.Millisecond)
		b.Expire(now)
		if _, back := b.Enter(0); back != 1 {
			t.Errorf("it gives back %d", back)
		}
		b.Entered(0, false)
		b.Answered(0, &Answer{Status: Granted, Now: 2, Left: claim, Place: 5, Token: 3, Since: 3}, rules.ClockPair{At: 2, Sent: now}, now)
		if v := b.Judge(now, there); v.Do != Hold || v.Term.TrustEnds().Sub(now) < claim/2 {
			t.Errorf("with a new vote: %+v", v)
		}
	}
}

func TestAMessageThatGivesTooLittleTrustHasTheNodeAskedWithoutGivingTheVoteBack(t *testing.T) {
	const claim = 300 * time.Millisecond
	began := time.Now()
	at := func(after time.Duration) lua.Micros { return lua.Micros(1e12 + after.Microseconds()) }
	b := New(3, claim, 0, began)
	for i := range 3 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Waits, Now: at(0), Place: 5}, rules.ClockPair{At: at(0), Sent: began}, began)
	}
	there := func(int) bool { return false }
	const waited = 2410 * time.Millisecond // a tenth of it leaves 29 ms of trust
	now := began.Add(waited)
	for i := range 2 {
		b.Heard(i, &lua.Message{News: lua.Grants, At: at(waited), Claim: claim, Token: 7}, now, 0)
	}
	if v := b.Judge(now, there); v.Do != Wait {
		t.Fatalf("decided by messages: %+v", v)
	}
	if due := b.Due(there); len(due) != 2 {
		t.Fatalf("nodes %d are asked", due)
	}
	for i := range 2 {
		if _, back := b.Enter(i); back != 0 {
			t.Errorf("it gives back %d", back)
		}
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Granted, Now: at(waited), Left: claim, Place: 5, Token: 7, Since: at(waited)}, rules.ClockPair{At: at(waited), Sent: now}, now)
	}
	if v := b.Judge(now, there); v.Do != Hold || v.Term.TrustEnds().Sub(now) != claim-claim/10 {
		t.Errorf("with answers: %+v", v)
	}
}

func TestVotesThatWereToldATokenDecideWhileATenthOfAClaimWillBeTrusted(t *testing.T) {
	const claim = 3 * time.Second
	there := func(int) bool { return false }
	for left, do := range map[time.Duration]Do{claim / 5: Wait, claim/5 + 1: Hold} { // a tenth, and the margin
		began := time.Now()
		b := New(3, claim, 0, began)
		for i, token := range []int64{4e6, 5e6} {
			b.Enter(i)
			b.Entered(i, false)
			a := ahead(token)
			a.Left = claim
			b.Answered(i, a, rules.ClockPair{At: 1, Sent: began}, began)
		}
		now := began.Add(claim - left + time.Microsecond) // an answer that comes later may know of more
		for i := range 2 {
			b.Knows(i, b.Vote(i), left, 5e6, now)
		}
		v := b.Judge(now, there)
		if v.Do != do || do == Hold && v.Term.TrustEnds().Sub(now) < claim/10 {
			t.Errorf("with %v left: %+v", left, v)
		}
	}
}

func TestAVoteThatWasGivenBackWhileItsTokenWasToldCountsNoMore(t *testing.T) {
	now := time.Now()
	b := New(3, time.Second, 0, now)
	there := func(int) bool { return false }
	for i, token := range []int64{4e6, 5e6} {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(token), rules.ClockPair{At: 1, Sent: now}, now)
	}
	v := b.Judge(now, there)
	if v.Do != Wait || len(v.Tell) != 2 || v.Token != 5e6 {
		t.Fatalf("%+v", v)
	}
	votes := []int64{b.Vote(0), b.Vote(1)}
	b.Knows(0, votes[0], time.Second, v.Token, now)
	b.Want(1, votes[1]) // the call gives it back
	b.Knows(1, votes[1], time.Second, v.Token, now)
	if v := b.Judge(now, there); v.Do != Wait {
		t.Errorf("it holds the lock by a vote that it gave back: %+v", v)
	}
	b.Answered(1, ahead(6e6), rules.ClockPair{At: 2, Sent: now}, now)
	b.Knows(1, votes[1], time.Second, v.Token, now)
	if v := b.Judge(now, there); v.Do != Wait || v.Token != 6e6 || len(v.Tell) != 2 {
		t.Errorf("another vote of the node does not know the token: %+v", v)
	}
	for i := range 2 {
		b.Knows(i, b.Vote(i), time.Second, 6e6, now)
	}
	if v := b.Judge(now, there); v.Do != Hold || v.Token != 6e6 {
		t.Errorf("both votes know the token: %+v", v)
	}
}

func TestAVoteOfWhichNothingHasToldYetIsAskedForAndGivenBackIfItIsWanted(t *testing.T) {
	const claim = 3 * time.Second
	now := time.Now()
	b := New(3, claim, 0, now)
	there := func(int) bool { return false }
	for i := range 3 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Waits, Now: 1, Left: claim, Place: 5}, rules.ClockPair{At: 1, Sent: now}, now)
	}
	b.Due(there)
	b.Want(1, 7) // the message of the grant is late
	if due := b.Due(there); !slices.Equal(due, []int{1}) {
		t.Fatalf("nodes %d are asked", due)
	}
	b.Enter(1)
	b.Entered(1, false)
	b.Answered(1, &Answer{Status: Granted, Now: 2, Left: claim, Place: 5, Token: 7, Since: 2}, rules.ClockPair{At: 2, Sent: now}, now)
	if due := b.Due(there); !slices.Equal(due, []int{1}) || b.Vote(1) != 0 {
		t.Fatalf("it has vote %d, and asks nodes %d", b.Vote(1), due)
	}
	if _, back := b.Enter(1); back != 7 {
		t.Errorf("it gives back %d", back)
	}
	b.Entered(1, false)
	b.Want(1, 7) // once more
	if due := b.Due(there); len(due) != 0 {
		t.Errorf("nodes %d are asked for what was given back", due)
	}
}

func TestAVoteThatWasTakenByForceCountsNoMoreAndItsCallEndsWhenAMajorityWas(t *testing.T) {
	now := time.Now()
	evicted := errors.New("evicted")
	b := New(3, time.Second, 0, now)
	there := func(int) bool { return false }
	for i := range 2 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(4e6), rules.ClockPair{At: 1, Sent: now}, now)
	}
	if v := b.Judge(now, there); len(v.Tell) != 2 {
		t.Fatalf("%+v", v)
	}
	votes := []int64{b.Vote(0), b.Vote(1)}
	b.Evicted(0, evicted)
	b.Answered(0, ahead(4e6), rules.ClockPair{At: 1, Sent: now}, now) // from before that
	for i := range 2 {
		b.Knows(i, votes[i], time.Second, 4e6, now)
	}
	if v := b.Judge(now, there); v.Do != Wait {
		t.Errorf("it holds the lock by a vote that was taken from it: %+v", v)
	}
	b.Evicted(1, evicted)
	if v := b.Judge(now, there); v.Do != Fail || !errors.Is(v.Err, evicted) {
		t.Errorf("a majority was taken from it: %+v", v)
	}
}

func TestALeaveThatIsRepeatedOrComesToANodeThatForgotDoesNotSayThatTheVoteWasLost(t *testing.T) {
	for _, c := range []struct {
		was            lua.Was
		trusted, again bool
		clean          bool
	}{
		{lua.Held, true, false, true},
		{lua.Neither, true, true, true}, // the first one took the vote back
		{lua.Neither, true, false, false},
		{lua.Neither, false, true, false},
		{lua.Waited, true, true, false},
		{lua.Forced, true, true, false}, // the first one came too late
		{Forgotten, true, false, true},
		{Forgotten, false, false, false}, // it was another node's vote that was trusted
	} {
		b := New(3, time.Second, 0, time.Now())
		r := b.Release(time.Now())
		r.unsaid = 1
		if c.trusted {
			r.unsaid++
		}
		r.Left(lua.Held, true, false)
		r.Left(c.was, c.trusted, c.again)
		if r.Clean() != c.clean || r.Known() != c.clean {
			t.Errorf("%+v: clean: %v, known: %v", c, r.Clean(), r.Known())
		}
		if was := r.Was(); (was == lua.Held) != c.clean || (was == lua.Forced) != (c.was == lua.Forced) || was == lua.Neither {
			t.Errorf("%+v: it was %q", c, was)
		}
	}
	b := New(3, time.Second, 0, time.Now())
	r := b.Release(time.Now())
	r.unsaid = 2
	r.Left(lua.Held, true, false)
	if !r.Clean() {
		t.Error("a trusted vote of which nothing is said is none")
	}
	if r.Lapsed(); r.Clean() {
		t.Error("a vote that may have ended counts")
	}
}

func TestOneRequestWithAPlaceIsUnderWayToANode(t *testing.T) {
	now := time.Now()
	there := func(int) bool { return false }
	b := New(3, time.Second, 0, now)
	b.Enter(0)
	b.Sent(0) // a heartbeat
	b.Ended(0, false)
	b.Ask(0)
	if due := b.Due(there); len(due) != 0 {
		t.Errorf("it asks %v before the answer", due)
	}
	b.Entered(0, false)
	if due := b.Due(there); len(due) != 1 {
		t.Errorf("it asks %v after the answer", due)
	}
}

// Else the call would ask as fast as the node answers, until the vote ends.
func TestAVoteThatIsTooShortToBeOfUseIsGivenBack(t *testing.T) {
	now := time.Now()
	b := New(3, time.Second, 0, now)
	there := func(int) bool { return false }
	b.Enter(0)
	b.Entered(0, false)
	short := ahead(4e6)
	short.Left = 20 * time.Millisecond
	b.Answered(0, short, rules.ClockPair{At: 1, Sent: now}, now)
	if due := b.Due(there); len(due) != 1 || due[0] != 0 {
		t.Fatalf("it asks %v", due)
	}
	if _, back := b.Enter(0); back != 4e6 {
		t.Errorf("it gives back %d", back)
	}
	b.Entered(0, false)
	b.Answered(0, ahead(5e6), rules.ClockPair{At: 2, Sent: now}, now)
	if !b.Has(0, now) {
		t.Error("it does not have the next vote")
	}
}

func TestAVoteThatWasTakenByForceDoesNotComeBackWithALateAnswer(t *testing.T) {
	now := time.Now()
	there := func(int) bool { return false }
	b := New(3, time.Second, 0, now)
	for i := range 2 { // the messages come first, on their own connections
		b.Enter(i)
		b.Evicted(i, errors.New("evicted"))
		b.Entered(i, false)
		b.Answered(i, ahead(4), rules.ClockPair{At: 1, Sent: now}, now)
	}
	if v := b.Judge(now, there); v.Do != Fail {
		t.Errorf("it waits, and has the lock by votes that were taken from it: %+v", v)
	}

	b = New(3, time.Second, 0, now)
	for i := range 2 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(4), rules.ClockPair{At: 1, Sent: now}, now)
	}
	if v := b.Judge(now, there); v.Do != Hold {
		t.Fatalf("%+v", v)
	}
	for i := range 2 {
		b.Sent(i)
		b.LoseVote(i)
		b.Ended(i, false)
		b.Renewed(i, time.Second, 4, now)
	}
	if _, ok := b.Standing(now); ok {
		t.Error("it holds the lock by votes that were taken from it")
	}
}

func TestAHoldThatWasForcedIsLostThoughItsRenewalIsUnderWay(t *testing.T) {
	now := time.Now()
	there := func(int) bool { return false }
	b := New(3, time.Second, 0, now)
	for i := range 2 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(4), rules.ClockPair{At: 1, Sent: now}, now)
	}
	b.Judge(now, there)
	for i := range 3 {
		b.Sent(i)
	}
	b.LoseVote(0)
	if _, ok := b.Standing(now); ok {
		t.Error("it has one vote, whatever the third node may say")
	}
}

// Its request would stand first in the line of a node that has taken the vote back by then.
func TestACallTellsNoTokenBeforeItKnowsItsPlace(t *testing.T) {
	now := time.Now()
	there := func(int) bool { return false }
	b := New(3, time.Second, 0, now)
	for i := range 2 { // both answers are lost, but the messages arrive
		b.Enter(i)
		b.legs[i].Told(&lua.TicketState{Status: lua.Waiting}, 0, rules.ClockPair{At: 1, Sent: now}, now, false)
		b.Entered(i, true)
		b.Heard(i, &lua.Message{News: lua.Grants, At: 2, Claim: time.Second, Token: int64(4+i) * 1e6}, now.Add(time.Millisecond), 0)
		if b.Vote(i) == 0 {
			t.Fatal("it does not believe the message")
		}
	}
	if v := b.Judge(now, there); v.Do != Wait || len(v.Tell) != 0 {
		t.Errorf("%+v", v)
	}
	for i := range 2 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(int64(4+i)*1e6), rules.ClockPair{At: 3, Sent: now}, now)
	}
	if v := b.Judge(now, there); v.Do != Wait || len(v.Tell) != 2 {
		t.Errorf("%+v", v)
	}
}

// Else the end of a fixed lease would be counted from such a vote.
func TestAHoldBeginsNeitherWithAVoteThatIsGoneNorWithALateOne(t *testing.T) {
	began := time.Now()
	b := New(3, 3*time.Second, 0, began)
	vote := func(i int, second lua.Micros) (now time.Time) {
		at, now := second*1e6, began.Add(time.Duration(second)*time.Second)
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Granted, Now: at, Left: 3 * time.Second, Place: 5, Token: int64(at), Since: at}, rules.ClockPair{At: at, Sent: now}, now)
		return now
	}
	vote(0, 1)
	b.Want(0, 1e6)
	vote(1, 2)
	if v := b.Judge(vote(2, 3), func(int) bool { return false }); v.Do != Hold || b.Since() != 3e6 {
		t.Fatalf("%+v since %v", v, b.Since())
	}
	unknown := func(what string) {
		if till := b.Till(0, b.Since()+30e6, b.Since()); till != 0 {
			t.Errorf("a node that has %s is to keep the hold until %v", what, till)
		}
	}
	unknown("its vote back")
	now := vote(0, 9)
	if !b.Has(0, now) {
		t.Fatal("it has not the late vote")
	}
	unknown("given it late")
	if left := b.Rest(30*time.Second, now); left != 24*time.Second {
		t.Errorf("%v are left of it", left)
	}
}

// A node that refuses the call is no part of a majority of its votes, though it answers.
func TestACallThatCannotBeDecidedKeepsNoVoteFromOthers(t *testing.T) {
	const claim = 3 * time.Second
	began := time.Now()
	b := New(3, claim, 0, began)
	away := func(i int) bool { return i == 1 }
	for _, i := range []int{0, 2} {
		b.Enter(i)
		b.Entered(i, false)
	}
	b.Failed(0, errors.New("NOPERM"), true)
	b.Answered(2, &Answer{Status: Granted, Now: 1, Left: claim, Place: 5, Token: 7, Since: 1}, rules.ClockPair{At: 1, Sent: began}, began)
	if v := b.Judge(began, away); v.Do != Wait {
		t.Fatalf("%+v", v)
	}
	now := began.Add(claim)
	b.Expire(now)
	if due := b.Due(away); len(due) != 0 || b.Stands(2) {
		t.Errorf("it asks %v for a vote that is of no use", due)
	}
	if due := b.Due(func(int) bool { return false }); !slices.Equal(due, []int{2}) {
		t.Errorf("with a node more it asks %v", due)
	}
	b.Enter(2)
	b.Entered(2, false)
	b.Answered(0, &Answer{Status: Waits, Now: 2, Place: 5}, rules.ClockPair{At: 2, Sent: now}, now) // it refuses no more
	b.Ask(2)
	b.legs[2].lapsed = true
	if due := b.Due(away); !slices.Contains(due, 2) {
		t.Errorf("with a majority that votes it asks %v", due)
	}
}

func TestANodeThatRefusesToBeToldATokenIsNotToldItAgainBeforeItAnswers(t *testing.T) {
	now := time.Now()
	b := New(3, time.Second, 0, now)
	there := func(int) bool { return false }
	vote := func(i int, token int64) {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, ahead(token), rules.ClockPair{At: 1, Sent: now}, now)
	}
	for i := range 3 {
		vote(i, int64(4+i)*1e6)
	}
	if v := b.Judge(now, there); !slices.Equal(v.Tell, []int{0, 1, 2}) {
		t.Fatalf("%+v", v)
	}
	b.Failed(0, errors.New("NOPERM"), true)
	if v := b.Judge(now, there); v.Do != Wait || !slices.Equal(v.Tell, []int{1, 2}) {
		t.Errorf("%+v", v)
	}
	vote(0, 4e6)
	if v := b.Judge(now, there); !slices.Equal(v.Tell, []int{0, 1, 2}) {
		t.Errorf("once it answers: %+v", v)
	}
	b.Failed(0, errors.New("NOPERM"), true)
	b.Failed(1, errors.New("NOPERM"), true)
	if v := b.Judge(now, there); v.Do != Fail {
		t.Errorf("without a majority that can be told: %+v", v)
	}
}

// The answer to an enter may come after a renewal has made the vote a lease.
func TestAVoteThatLastsALeaseHasTheMarginOfALease(t *testing.T) {
	const claim, lease = 3 * time.Second, 30 * time.Second
	now := time.Now()
	b := New(3, claim, 0, now)
	for i := range 3 {
		b.Enter(i)
	}
	vote := func(i int, left time.Duration) {
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Granted, Now: 1, Left: left, Place: 5, Token: 7, Since: 1}, rules.ClockPair{At: 1, Sent: now}, now)
	}
	vote(0, claim)
	vote(1, claim)
	if v := b.Judge(now, func(int) bool { return false }); v.Do != Hold {
		t.Fatalf("%+v", v)
	}
	b.Renewed(0, 2*lease, 7, now)
	b.Renewed(1, 0, 7, now.Add(time.Millisecond)) // the node has lost it
	vote(2, lease)
	if until, ok := b.Standing(now); !ok || until.Sub(now) != lease-lease/10 {
		t.Errorf("it is trusted for %v", until.Sub(now))
	}
}

// Else each late vote of a holder would cost two renewals.
func TestADecidedCallIsNotToldItsPlace(t *testing.T) {
	now := time.Now()
	b := New(3, time.Second, 0, now)
	for i := range 3 {
		b.Enter(i)
	}
	for i := range 2 {
		b.Entered(i, false)
		b.Answered(i, ahead(4), rules.ClockPair{At: 1, Sent: now}, now)
	}
	if v := b.Judge(now, func(int) bool { return false }); v.Do != Hold {
		t.Fatalf("%+v", v)
	}
	b.Entered(2, false)
	b.Answered(2, &Answer{Status: Waits, Now: 2, Place: b.Place - 1, Holder: "b", Pending: true}, rules.ClockPair{At: 2, Sent: now}, now)
	if b.TakeDue(2) {
		t.Error("it asks the node again, which is to tell it of the vote")
	}
}

func TestACallIsTrustedForNoLongerThanItsClaimWhateverItsNodesClocksDid(t *testing.T) {
	now := time.Now()
	b := New(3, 3*time.Second, 0, now)
	us := lua.Micros(now.UnixMicro())
	for i := range 2 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Granted, Now: us, Token: int64(us) + int64(i), Since: us, Left: 30 * time.Second, Place: us},
			rules.ClockPair{Sent: now, At: us}, now)
	}
	v := b.Judge(now, func(int) bool { return false })
	if v.Do != Hold || v.Term.Ends.After(now.Add(3*time.Second)) {
		t.Errorf("%+v, %v from now", v, v.Term.Ends.Sub(now))
	}
}

// The answer to the renewal says that the hold waits, which was so before the message.
func TestAVoteThatComesAfterTheFirstHasPassedIsNotLostToARenewalThatIsUnderWay(t *testing.T) {
	const claim, lease = 3 * time.Second, 30 * time.Second
	began := time.Now()
	at := func(now time.Time) lua.Micros { return lua.Micros(1e12 + now.Sub(began).Microseconds()) }
	b := New(3, claim, 0, began)
	for i := range 3 {
		b.Enter(i)
		b.Entered(i, false)
		b.Answered(i, &Answer{Status: Waits, Now: at(began), Place: 5}, rules.ClockPair{At: at(began), Sent: began}, began)
		vote := &Answer{Status: Granted, Now: at(began), Left: claim, Place: 5, Token: 7, Since: at(began)}
		b.Answered(i, vote, rules.ClockPair{At: at(began), Sent: began}, began)
	}
	if v := b.Judge(began, func(int) bool { return false }); v.Do != Hold {
		t.Fatalf("%+v", v)
	}
	for i := range 2 { // the third node does not answer
		b.Renewed(i, lease, 7, began)
	}
	sent := began.Add(claim + time.Second)
	if b.Has(2, sent) {
		t.Fatal("the third vote has not passed")
	}
	b.Sent(2)
	heard := sent.Add(time.Millisecond)
	b.Heard(2, &lua.Message{News: lua.Grants, At: at(heard), Claim: claim, Token: 8}, heard, 0)
	b.Ended(2, false)
	b.Renewed(2, 0, 7, sent)
	if !b.Has(2, heard) || b.Vote(2) != 8 {
		t.Errorf("it has vote %d", b.Vote(2))
	}
}
