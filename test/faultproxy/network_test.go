package faultproxy

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/fairlock/locks/test/redistest"
)

func TestCutAllEndsEveryConnectionAndNewOnesAreWelcome(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		one, two := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		eventually(t, "both are connected", func() bool { return p.Connections() == 2 })
		p.CutAll()
		if got := p.Connections(); got != 0 {
			t.Fatalf("%d connections", got)
		}
		one.wantsEnd()
		two.wantsEnd()
		w := dialWire(t, p.Addr())
		w.send("ECHO", "x")
		w.wants(bulk("x"))
	})
}

func TestGoRedisSubscribesAgainAfterACut(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		subscribed := p.Add(Rule{Match: Command("SUBSCRIBE"), Action: Observe()})
		sub := connect(t, p.Addr()).Subscribe(ctx, "channel")
		defer sub.Close()
		messages := sub.Channel()
		subscribed.WaitExecuted(t, 1, patience)
		p.CutAll()
		subscribed.WaitExecuted(t, 2, patience)
		must(t, direct.Publish(ctx, "channel", "hello").Err())
		if got := <-messages; got.Payload != "hello" {
			t.Fatalf("message %v", got)
		}
	})
}

func TestARefusedConnectionEndsAtOnceAndOldOnesStay(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		old := dialWire(t, p.Addr())
		eventually(t, "it is connected", func() bool { return p.Connections() == 1 })
		p.Refuse(true)
		if err := connect(t, p.Addr()).Ping(ctx).Err(); !isDisconnect(err) {
			t.Fatalf("a new client saw %v", err)
		}
		old.send("ECHO", "x")
		old.wants(bulk("x"))
		p.Refuse(false)
		must(t, connect(t, p.Addr()).Ping(ctx).Err())
	})
}

func TestAFrozenNetworkMovesNothingAndDeliversItAllLater(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		stayer, leaver := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		eventually(t, "both are connected", func() bool { return p.Connections() == 2 })
		p.Freeze(true)
		stayer.send("APPEND", "k", "s")
		newcomer := dialWire(t, p.Addr())
		newcomer.send("ECHO", "new")
		leaver.send("SET", "left", "1")
		must(t, leaver.conn.Close())
		eventually(t, "all has come", func() bool { return p.Count(Any) == 3 && p.Connections() == 2 })
		stays(t, direct, "k", "")
		stays(t, direct, "left", "")
		stayer.wantsSilence()
		newcomer.wantsSilence()
		p.Freeze(false)
		stayer.wants(":1\r\n")
		newcomer.wants(bulk("new"))
		eventually(t, "the leaver's request is there", func() bool { return direct.Get(ctx, "left").Val() == "1" })
	})
}

func TestAFrozenNetworkKeepsRepliesAndMessagesBack(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		sub, pop := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		sub.send("SUBSCRIBE", "channel")
		sub.wants("*3\r\n" + bulk("subscribe") + bulk("channel") + ":1\r\n")
		waiting := p.Add(Rule{Match: Command("BLPOP"), Action: Observe()})
		pop.send("BLPOP", "list", "0")
		waiting.WaitHit(t, 1, patience)
		p.Freeze(true)
		must(t, direct.Publish(ctx, "channel", "hello").Err())
		must(t, direct.RPush(ctx, "list", "element").Err())
		sub.wantsSilence()
		pop.wantsSilence()
		p.Freeze(false)
		sub.wants("*3\r\n" + bulk("message") + bulk("channel") + bulk("hello"))
		pop.wants("*2\r\n" + bulk("list") + bulk("element"))
	})
}

func TestAServerDoesNotLearnOfAnEndBehindAFrozenNetwork(t *testing.T) {
	s := redistest.Start(t)
	p, direct := New(t, s.Addr()), connect(t, s.Addr())
	w := dialWire(t, p.Addr())
	w.send("CLIENT", "SETNAME", "leaver")
	w.wants("+OK\r\n")
	known := func() bool { return strings.Contains(direct.ClientList(ctx).Val(), "name=leaver") }
	p.Freeze(true)
	must(t, w.conn.Close())
	eventually(t, "the proxy knows", func() bool { return p.Connections() == 0 })
	for range 100 {
		if !known() {
			t.Fatal("the server knows")
		}
	}
	p.Freeze(false)
	eventually(t, "the server knows too", func() bool { return !known() })
}

func TestAClientDoesNotLearnOfTheServersEndBehindAFrozenNetwork(t *testing.T) {
	s := redistest.Start(t)
	p := New(t, s.Addr())
	w := dialWire(t, p.Addr())
	w.send("ECHO", "x")
	w.wants(bulk("x"))
	p.Freeze(true)
	s.Kill()
	w.wantsSilence()
	p.Freeze(false)
	w.wantsEnd()
}

func TestWhatWasFrozenWhenEverythingWasCutIsLost(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		w := dialWire(t, p.Addr())
		w.send("ECHO", "x")
		w.wants(bulk("x"))
		p.Freeze(true)
		w.send("SET", "k", "v")
		eventually(t, "it has come", func() bool { return p.Count(Command("SET")) == 1 })
		p.CutAll()
		w.wantsEnd()
		p.Freeze(false)
		stays(t, direct, "k", "")
	})
}

func TestWithoutAServerAConnectionEnds(t *testing.T) {
	w := dialWire(t, New(t, "127.0.0.1:1").Addr())
	w.wantsEnd()
}

func TestCountCountsWhatMatchesAndCountsARepetitionAgain(t *testing.T) {
	p := New(t, miniredis.RunT(t).Addr())
	w := dialWire(t, p.Addr())
	for _, args := range [][]string{{"GET", "a"}, {"GET", "b"}, {"SET", "a", "1"}, {"get", "a"}} {
		w.send(args...)
		_, err := readReply(w.r)
		must(t, err)
	}
	if got := p.Count(CommandWith("GET", "a")); got != 2 {
		t.Errorf("GET a: %d", got)
	}
	if got := p.Count(Any); got != 4 {
		t.Errorf("all: %d", got)
	}
}

func TestBytesThatAreNotRedisFailTheTest(t *testing.T) {
	e := &errorsOf{TB: t}
	p := New(e, miniredis.RunT(t).Addr())
	w := dialWire(t, p.Addr())
	_, err := w.conn.Write([]byte("GET / HTTP/1.1\r\n"))
	must(t, err)
	w.wantsEnd()
	if got := e.text.Load(); got == nil || !strings.Contains(*got, "from a client: not RESP") {
		t.Fatal("nobody complained")
	}
}

func TestAHalfClosedConnectionStillCarriesTheOtherHalf(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		deaf, mute := dialWire(t, p.Addr()), dialWire(t, p.Addr())
		for _, w := range []*wire{deaf, mute} {
			w.send("ECHO", "x")
			w.wants(bulk("x"))
		}
		p.CloseHalf(ToClient)
		deaf.wantsEnd()
		deaf.send("SET", "k", "v")
		eventually(t, "what the deaf one says arrives", func() bool { return direct.Get(ctx, "k").Val() == "v" })
		p.CloseHalf(ToServer)
		eventually(t, "the server has closed, and so both are gone", func() bool { return p.Connections() == 0 })
		mute.wantsEnd()
	})
}

func TestAForgetfulProxyCountsNothing(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p := New(t, addr)
		w := dialWire(t, p.Addr())
		w.send("ECHO", "x")
		w.wants(bulk("x"))
		p.Forget()
		w.send("ECHO", "y")
		w.wants(bulk("y"))
		if n := p.Count(Any); n != 0 {
			t.Fatalf("%d requests are kept", n)
		}
	})
}

func TestWhatASubscriberIsToldArrivesInTwoPartsIfATestWantsThat(t *testing.T) {
	onEveryServer(t, func(t *testing.T, addr string) {
		p, direct := New(t, addr), connect(t, addr)
		w := dialWire(t, p.Addr())
		w.send("SUBSCRIBE", "c")
		w.wants("*3\r\n" + bulk("subscribe") + bulk("c") + ":1\r\n")
		const pause = 3 * time.Second
		p.Tear(11, pause)
		began := time.Now()
		must(t, direct.Publish(ctx, "c", "hello").Err())
		if _, err := w.r.Peek(11); err != nil || w.r.Buffered() != 11 || time.Since(began) >= pause {
			t.Errorf("%d bytes, %v, after %v", w.r.Buffered(), err, time.Since(began))
		}
		w.wants("*3\r\n" + bulk("message") + bulk("c") + bulk("hello"))
		if took := time.Since(began); took < pause || !p.Torn() {
			t.Errorf("the rest took %v", took)
		}
	})
}
