package faultproxy

import (
	"testing"
)

func TestAHeldRequestIsExecutedAfterReleaseThoughItsClientHasGone(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		c := connect(t, p.Addr(), impatient)
		eventually(t, "it is connected", func() bool { return c.Ping(ctx).Err() == nil })
		held := p.Add(Rule{Match: CommandWith("SET", "k"), Times: 1, Action: HoldRequest()})
		if err := c.Set(ctx, "k", "late", 0).Err(); !isTimeout(err) {
			t.Fatalf("the client saw %v", err)
		}
		must(t, c.Close())
		held.WaitHit(t, 1, patience)
		eventually(t, "the client has gone", func() bool { return p.Connections() == 0 })
		stays(t, direct, "k", "")
		if held.Executed() != 0 {
			t.Fatal("executed before its release")
		}
		held.Release()
		held.WaitExecuted(t, 1, patience)
		if got := direct.Get(ctx, "k").Val(); got != "late" {
			t.Fatalf("k = %q", got)
		}
	})
}

func TestAReleasedRequestIsAnsweredIfItsClientHasWaited(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		held := p.Add(Rule{Match: Command("ECHO"), Action: HoldRequest()})
		w := dialWire(t, p.Addr())
		for n := range 3 { // a rule without Times holds again after each Release
			w.send("ECHO", "x")
			held.WaitHit(t, n+1, patience)
			w.wantsSilence()
			held.Release()
			w.wants("$1\r\nx\r\n")
		}
	})
}

func TestReleaseLetsEveryHeldRequestGo(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		held := p.Add(Rule{Match: Command("INCR"), Action: HoldRequest()})
		for range 3 {
			dialWire(t, p.Addr()).send("INCR", "n")
		}
		held.WaitHit(t, 3, patience)
		held.Release()
		held.WaitExecuted(t, 3, patience)
	})
}

func TestWhatIsBehindAHeldRequestWaitsTooAndKeepsItsPlace(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		held := p.Add(Rule{Match: CommandWith("APPEND", "b"), Times: 1, Action: HoldRequest()})
		w, other := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		for _, letter := range []string{"a", "b", "c"} {
			w.send("APPEND", "k", letter)
		}
		w.wants(":1\r\n")
		held.WaitHit(t, 1, patience)
		stays(t, direct, "k", "a")
		other.send("APPEND", "k", "-")
		other.wants(":2\r\n")
		must(t, w.conn.Close())
		held.Release()
		eventually(t, "all is there", func() bool { return direct.Get(ctx, "k").Val() == "a-bc" })
	})
}

func TestAHeldRequestSurvivesACutButWhatIsBehindItDoesNot(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		held := p.Add(Rule{Match: CommandWith("APPEND", "b"), Times: 1, Action: HoldRequest()})
		w := dialWire(t, p.Addr())
		w.send("APPEND", "k", "b")
		w.send("APPEND", "k", "c")
		held.WaitHit(t, 1, patience)
		eventually(t, "both have come", func() bool { return p.Count(Command("APPEND")) == 2 })
		p.CutAll()
		w.wantsEnd()
		held.Release()
		held.WaitExecuted(t, 1, patience)
		stays(t, direct, "k", "b")
	})
}

func TestRemovingARuleDoesNotReleaseWhatItHolds(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		held := p.Add(Rule{Match: Command("ECHO"), Action: HoldRequest()})
		w, other := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		w.send("ECHO", "held")
		held.WaitHit(t, 1, patience)
		held.Remove()
		other.send("ECHO", "free")
		other.wants("$4\r\nfree\r\n")
		w.wantsSilence()
		held.Release()
		w.wants("$4\r\nheld\r\n")
	})
}

func TestADroppedRequestIsNotExecutedAndTheClientSeesOnlyTheEnd(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		c := connect(t, p.Addr())
		dropped := p.Add(Rule{Match: Command("SET"), Times: 1, Action: DropRequest()})
		if err := c.Set(ctx, "k", "v", 0).Err(); !isDisconnect(err) {
			t.Fatalf("the client saw %v", err)
		}
		stays(t, direct, "k", "")
		if dropped.Hits() != 1 || dropped.Executed() != 0 {
			t.Fatalf("%d hits, %d executed", dropped.Hits(), dropped.Executed())
		}
		must(t, c.Set(ctx, "k", "v", 0).Err())
	})
}

func TestWhatIsBehindADroppedRequestIsDroppedToo(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		p.Add(Rule{Match: CommandWith("APPEND", "b"), Action: DropRequest()})
		w := dialWire(t, p.Addr())
		_, err := w.conn.Write(append(encode("APPEND", "k", "b"), encode("APPEND", "k", "c")...))
		must(t, err)
		w.wantsEnd()
		stays(t, direct, "k", "")
	})
}

func TestARequestThatACutHasLostMeetsNoRule(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		lost := p.Add(Rule{Match: CommandWith("ECHO", "lost"), Action: Observe()})
		held := p.Add(Rule{Match: CommandWith("ECHO", "held"), Action: HoldRequest()})
		w := dialWire(t, p.Addr())
		w.send("ECHO", "held")
		w.send("ECHO", "lost")
		held.WaitHit(t, 1, patience)
		eventually(t, "both have come", func() bool { return p.Count(Command("ECHO")) == 2 })
		p.CutAll()
		held.Release()
		held.WaitExecuted(t, 1, patience)
		if lost.Hits() != 0 {
			t.Fatal("a rule acted on it")
		}
	})
}
