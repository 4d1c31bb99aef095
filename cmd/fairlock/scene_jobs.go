package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
)

// jobsScene is the first: jobs for one lock, one of whose workers is killed.
type jobsScene struct {
	*stage
	line    []string       // the server's
	order   *order         // that line against the grants
	of      map[string]int // job -> its worker
	victim  *workerProcess // who will be killed
	last    string         // the job after which it would have had its turn
	freed   int64          // when the lock was released by that job
	shown   int            // how much of the line was shown
	through int            // how many jobs are
	failed  error
}

// jobs plays it.
func (s *stage) jobs() error {
	count := max(24, 3*len(s.crew.workers))
	s.screen.scene("Jobs, one at a time, in the order in which they came")
	g, err := s.shut("jobs")
	if err != nil {
		return err
	}
	defer g.abandon()
	scene, err := s.lineUp(count)
	if err != nil {
		return err
	}
	s.screen.say("%d jobs stand in line for one lock, by the server's own order:\n%s", count, s.screen.wrap(numbers(scene.line)))
	if err := g.open(); err != nil {
		return err
	}
	if err := scene.follow(); err != nil {
		return err
	}
	s.witness.inversions += scene.order.inversions
	return s.replace(scene.victim)
}

// lineUp has the jobs ask one after the other, each when the server has the one before in line.
func (s *stage) lineUp(count int) (*jobsScene, error) {
	workers := s.crew.workers
	scene := &jobsScene{stage: s, of: make(map[string]int)}
	scene.last = jobName(count/3 + 1)
	scene.victim = workers[(count/3+1)%len(workers)] // job n+1 is the worker's with number n modulo all
	work := min(60*time.Millisecond, 2*time.Second/time.Duration(count))
	for n := 1; n <= count; n++ {
		who, worker := jobName(n), workers[(n-1)%len(workers)]
		scene.of[who] = worker.number
		worker.send(command{Do: doJob, Lock: "jobs", Who: who, Work: work, Hold: who == scene.last})
		state, err := s.until("jobs", func(state *fairlock.State) bool { return isLast(state, who) })
		if err != nil {
			return nil, err
		}
		scene.line = notes(state)
	}
	for n := 1; n <= count; n++ {
		if len(scene.line) != count || scene.line[n-1] != jobName(n) {
			s.witness.breaks("%d jobs came one after the other, and the line is: %s", count, numbers(scene.line))
			break
		}
	}
	scene.order = newOrder(scene.line)
	return scene, nil
}

func jobName(n int) string { return fmt.Sprintf("job %d", n) }

// numbers is a line of jobs, in short.
func numbers(line []string) string {
	short := make([]string, len(line))
	for i, who := range line {
		_, short[i], _ = strings.Cut(who, " ")
	}
	return strings.Join(short, " ")
}

// follow watches until all jobs of the living are done.
func (s *jobsScene) follow() error {
	expected := 0 // the victim's turns before its end are over when it dies, but it may not live to tell of the last
	for _, who := range s.line {
		if !s.isVictims(who) {
			expected++
		}
	}
	err := s.each(func(e event) bool {
		if e.Lock == "jobs" { // others may be late to tell that they have left another
			s.take(e)
		}
		return s.failed != nil || s.through == expected
	})
	s.showLost(len(s.line))
	return cmp.Or(s.failed, err)
}

func (s *jobsScene) take(e event) {
	switch e.Kind {
	case onEntered:
		s.enters(e)
	case onLeft:
		if e.Who == s.last {
			s.freed = e.At
		}
	case onDone:
		if !s.isVictims(e.Who) {
			s.through++
		}
	}
}

func (s *jobsScene) isVictims(who string) bool { return s.of[who] == s.victim.number }

// enters shows a job that has the lock.
func (s *jobsScene) enters(e event) {
	s.order.serve(e.Who)
	s.showLost(s.order.places[e.Who])
	s.shown = s.order.places[e.Who] + 1
	remark := ""
	if s.freed > 0 && s.report.recovered == 0 {
		s.report.recovered = time.Duration(e.At - s.freed)
		remark = fmt.Sprintf("%s after %s", output.Milliseconds(s.report.recovered), s.last)
	}
	s.screen.job(e, remark)
	if e.Who == s.last {
		s.failed = s.strike()
	}
}

// showLost shows the jobs up to a place that died with their worker.
func (s *jobsScene) showLost(place int) {
	for ; s.shown < place; s.shown++ {
		s.screen.lost(s.line[s.shown], s.of[s.line[s.shown]])
	}
}

// strike kills the worker that is next in line, while the lock is held, and then lets the holder go on.
func (s *jobsScene) strike() error {
	state, err := s.locker.Inspect(s.ctx, "jobs")
	if err != nil {
		return s.cause(err)
	}
	theirs := 0
	for _, who := range notes(state) {
		if s.isVictims(who) {
			theirs++
		}
	}
	if len(state.Waiters) == 0 || !s.isVictims(state.Waiters[0].Note) {
		s.witness.breaks("worker %s is not next in line after %s", letter(s.victim.number), s.last)
	}
	s.victim.kill()
	s.report.lost = theirs
	s.screen.strike("kill -9 of worker %s (process %d): next in line, with %d jobs", letter(s.victim.number), s.victim.cmd.Process.Pid, theirs)
	if err := s.pause(300 * time.Millisecond); err != nil { // for the eye
		return err
	}
	s.crew.workers[s.of[s.last]].send(command{Do: doFinish, Who: s.last})
	return nil
}

// replace hires somebody for a worker that was killed.
func (s *stage) replace(p *workerProcess) error {
	if err := s.crew.hire(p.number); err != nil {
		return err
	}
	return s.warmUp(s.crew.workers[p.number])
}
