package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
	"github.com/fairlock/locks/quorum"
)

// operator starts servers and instances, ends them and watches.
type operator struct {
	*stage.Stage
	crew      *stage.Crew[event]
	locker    *quorum.Locker // to ask the servers how they are
	servers   []*stage.Process
	addrs     []string
	instances map[string]*stage.Process
	active    string    // the active instance; "": none
	token     int64     // of the last active one
	history   []string  // who was active
	struck    time.Time // when the last active instance was killed, asked to end, or left without a majority
	killed    int       // how many servers were
}

func play(ctx context.Context, s *stage.Stage) (err error) {
	crew, err := stage.NewCrew[event](s)
	if err != nil {
		return err
	}
	o := &operator{Stage: s, crew: crew, instances: make(map[string]*stage.Process)}
	if err := o.found(ctx); err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{
		o.enter, o.loseServerAndInstance, o.loseServerWhileInstanceEnds, o.loseMajority,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	for _, p := range o.servers {
		p.Kill() // a real server does not end by itself
	}
	return s.Audit("active were %s, never two at once, though a server was killed %d times", strings.Join(o.history, " "), o.killed)
}

// found starts three servers and makes them a quorum.
func (o *operator) found(ctx context.Context) error {
	var listeners []net.Listener // all at once, or two servers could get one port
	for range 3 {
		listener, err := listen(ctx)
		if err != nil {
			return err
		}
		listeners, o.addrs = append(listeners, listener), append(o.addrs, listener.Addr().String())
	}
	for _, listener := range listeners {
		if err := listener.Close(); err != nil {
			return err
		}
	}
	if err := flag.Set("nodes", strings.Join(o.addrs, ",")); err != nil { // for the processes, too
		return err
	}
	locker, closeAll := open()
	o.locker, o.servers = locker, make([]*stage.Process, len(o.addrs))
	o.Cleanup(closeAll)
	for i := range o.addrs {
		if err := o.start(i); err != nil {
			return err
		}
	}
	if err := o.ready(ctx, func(s quorum.NodeStatus) bool { return s.Err == nil }, 0, 1, 2); err != nil {
		return err
	}
	o.Say("three servers, and two of them are a majority. They are new and have forgotten nothing: Init says so")
	return locker.Init(ctx)
}

// listen listens on a port below those that systems give out; Linux begins at 32768. While a server
// is dead, a connection could get one of those for its own end, and the server not come back. They
// are above the ports that the Redis servers of tests take.
func listen(ctx context.Context) (listener net.Listener, err error) {
	const first, ports, tries = 31000, 1768, 100
	for range tries {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ports)))
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); err == nil {
			break
		}
	}
	return listener, err
}

// enter starts the instances.
func (o *operator) enter(ctx context.Context) error {
	for _, name := range []string{"A", "B", "C"} {
		if err := o.join(ctx, name); err != nil {
			return err
		}
	}
	return o.work(ctx)
}

// loseServerAndInstance kills a server, which the active instance does not notice, and then that
// instance.
func (o *operator) loseServerAndInstance(ctx context.Context) error {
	o.kill(0, "nothing happens")
	if err := o.work(ctx); err != nil {
		return err
	}
	o.struck = time.Now()
	o.instances[o.active].Kill()
	o.Say("  %s", stage.Red("kill -9 of instance "+o.active+": its lease has to end"))
	o.active = ""
	if err := o.until(ctx, func(e event) bool { return e.What == active }); err != nil {
		return err
	}
	return o.comeBack(ctx, 0)
}

// loseServerWhileInstanceEnds kills the next server and has the active instance end.
func (o *operator) loseServerWhileInstanceEnds(ctx context.Context) error {
	if err := o.join(ctx, "A"); err != nil {
		return err
	}
	o.kill(1, "nothing happens")
	if err := o.work(ctx); err != nil {
		return err
	}
	o.struck = time.Now()
	o.instances[o.active].Stop()
	o.Say("  %s", stage.Red("SIGTERM to instance "+o.active))
	if err := o.until(ctx, func(e event) bool { return e.What == active }); err != nil {
		return err
	}
	return o.comeBack(ctx, 1)
}

// loseMajority kills two servers: nobody can be active, and the active instance must end.
func (o *operator) loseMajority(ctx context.Context) error {
	if err := o.work(ctx); err != nil {
		return err
	}
	was := o.active
	o.kill(2, "nothing happens yet")
	o.kill(0, "no majority is left")
	o.struck = time.Now() // each kill waits for the server's end
	if err := o.until(ctx, func(e event) bool { return e.What == finished }); err != nil {
		return err
	}
	o.Check(time.Since(o.struck) < leaseTime+2*time.Second, "%s was active %v after the majority was lost", was, time.Since(o.struck))
	if err := o.comeBack(ctx, 2, 0); err != nil {
		return err
	}
	if o.active == "" {
		if err := o.until(ctx, func(e event) bool { return e.What == active }); err != nil {
			return err
		}
	}
	return o.work(ctx)
}

// start starts a server.
func (o *operator) start(i int) (err error) {
	o.servers[i], err = o.crew.Start("server " + o.addrs[i])
	return err
}

// kill kills a server.
func (o *operator) kill(i int, then string) {
	o.servers[i].Kill()
	o.killed++
	o.Say("  %s", stage.Red(fmt.Sprintf("kill -9 of server %d: %s", i+1, then)))
}

// comeBack starts servers that were killed. They are empty, and must not grant at once.
func (o *operator) comeBack(ctx context.Context, which ...int) error {
	for _, i := range which {
		if err := o.start(i); err != nil {
			return err
		}
		o.Say("  %s", stage.Green(fmt.Sprintf("server %d is back, and empty: it grants nothing for %v", i+1, longestLease)))
	}
	began := time.Now()
	if err := o.ready(ctx, func(s quorum.NodeStatus) bool { return s.Err == nil && s.Set != "" && s.Quarantine == 0 }, which...); err != nil {
		return err
	}
	o.Check(time.Since(began) > longestLease/2, "a server that is empty grants after %v", time.Since(began))
	for _, i := range which {
		o.Say("  %s", stage.Green(fmt.Sprintf("server %d takes part again", i+1)))
	}
	return nil
}

// ready waits until these servers are as wanted, and handles events meanwhile.
func (o *operator) ready(ctx context.Context, is func(quorum.NodeStatus) bool, which ...int) error {
	for {
		all, err := o.locker.Nodes(ctx)
		if err != nil {
			return err
		}
		good := 0
		for _, i := range which {
			if is(all[i]) {
				good++
			}
		}
		if good == len(which) {
			return nil
		}
		pause, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err = o.until(pause, func(event) bool { return false })
		ended := pause.Err() != nil
		cancel()
		if !ended || ctx.Err() != nil {
			return err
		}
	}
}

// join starts an instance and waits until it is active or in line.
func (o *operator) join(ctx context.Context, name string) error {
	p, err := o.crew.Start(name)
	if err != nil {
		return err
	}
	o.instances[name] = p
	return o.until(ctx, func(e event) bool { return e.Instance == name })
}

// work lets the active instance work for longer than its lease.
func (o *operator) work(ctx context.Context) error {
	began := time.Now()
	return o.until(ctx, func(e event) bool { return e.What == works && time.Since(began) > leaseTime })
}

// until handles events up to the first that isIt accepts.
func (o *operator) until(ctx context.Context, isIt func(event) bool) error {
	for {
		e, err := o.crew.Next(ctx)
		if err != nil {
			return err
		}
		o.see(e)
		if isIt(e) {
			return nil
		}
	}
}

// see checks that no instance works after another one has become active.
func (o *operator) see(e event) {
	who := stage.Name("instance", e.Instance)
	switch e.What {
	case waits:
		o.Say("  %s is a backup, number %d in line", who, e.Position)
	case active:
		o.Check(e.Token > o.token, "%s has token %d after token %d", e.Instance, e.Token, o.token)
		after := ""
		if !o.struck.IsZero() {
			after = fmt.Sprintf(" %.3f s later", time.Since(o.struck).Seconds())
		}
		o.Say("%s is active%s, with token %d", who, after, e.Token)
		o.active, o.token, o.history = e.Instance, e.Token, append(o.history, e.Instance)
	case works:
		o.Check(o.active == e.Instance || o.active == "", "%s works while %s is active", e.Instance, o.active)
	case finished:
		o.Say("  %s ends its work", who)
		if o.active == e.Instance {
			o.active = ""
		}
	}
}
