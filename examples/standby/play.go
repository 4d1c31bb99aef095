package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/locks/examples/internal/stage"
)

// late is when a backup should have taken over even on a busy machine.
const late = 3 * leaseTime

// operator starts instances, ends them and watches.
type operator struct {
	*stage.Stage
	crew      *stage.Crew[event]
	instances map[string]*stage.Process
	active    string        // the active instance; "": none
	token     int64         // of the last active one
	history   string        // who was active
	struck    time.Time     // when the last active instance was killed or asked to end
	slowest   time.Duration // the longest time until a backup took over from a killed instance
}

func play(ctx context.Context, s *stage.Stage) error {
	crew, err := stage.NewCrew[event](s)
	if err != nil {
		return err
	}
	o := &operator{Stage: s, crew: crew, instances: make(map[string]*stage.Process)}
	for _, name := range []string{"A", "B", "C"} {
		if err := o.start(ctx, name); err != nil {
			return err
		}
	}
	for _, scene := range []func(context.Context) error{o.kill, o.comeBack, o.kill, o.end} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	s.Check(o.history == "A B C A", "active were, one after the other, %s", o.history)
	s.Check(o.slowest < late, "a backup took over after %v", o.slowest)
	return s.Audit("active were %s, in the order of their line and never two at once; take-over after kill -9 within %.1f s (lease: %v)",
		o.history, o.slowest.Seconds(), leaseTime)
}

// start starts an instance and waits until the instance is active or in line.
func (o *operator) start(ctx context.Context, name string) error {
	p, err := o.crew.Start(name)
	if err != nil {
		return err
	}
	o.instances[name] = p
	return o.until(ctx, func(e event) bool { return e.Instance == name })
}

// kill kills the active instance once it has worked for a while, and waits for the next.
func (o *operator) kill(ctx context.Context) error {
	p, err := o.watch(ctx)
	if err != nil {
		return err
	}
	o.struck = time.Now()
	p.Kill()
	o.Say("  %s", stage.Red(fmt.Sprintf("kill -9 of process %d", p.PID())))
	o.active = ""
	err = o.takenOver(ctx)
	o.slowest = max(o.slowest, time.Since(o.struck))
	return err
}

// comeBack starts the first instance again. It was away, so the others come before it.
func (o *operator) comeBack(ctx context.Context) error { return o.start(ctx, "A") }

// end asks the active instance to end. It unlocks, so nobody has to wait for the end of its lease.
func (o *operator) end(ctx context.Context) error {
	p, err := o.watch(ctx)
	if err != nil {
		return err
	}
	o.struck = time.Now()
	p.Stop()
	o.Say("  %s", stage.Red(fmt.Sprintf("SIGTERM to process %d", p.PID())))
	return o.takenOver(ctx)
}

// watch lets the active instance work for a while and returns its process.
func (o *operator) watch(ctx context.Context) (*stage.Process, error) {
	worked := 0
	err := o.until(ctx, func(e event) bool {
		if e.What == works {
			worked++
		}
		return worked == 5
	})
	return o.instances[o.active], err
}

func (o *operator) takenOver(ctx context.Context) error {
	return o.until(ctx, func(e event) bool { return e.What == active })
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
		o.active, o.token, o.history = e.Instance, e.Token, strings.TrimSpace(o.history+" "+e.Instance)
	case works:
		o.Check(o.active == e.Instance || o.active == "", "%s works while %s is active", e.Instance, o.active)
	case finished:
		o.Say("  %s unlocks", who)
		if o.active == e.Instance {
			o.active = ""
		}
	}
}
