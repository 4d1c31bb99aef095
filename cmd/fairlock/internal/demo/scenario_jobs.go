package demo

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/output"
	"github.com/fairlock/locks/fairlock"
)

// jobsScenario is the first scenario: jobs for one lock. The worker of one of them is killed.
type jobsScenario struct {
	*session
	line    []string       // the server's line
	order   *order         // compares that line with the grants
	of      map[string]int // job -> its worker's number
	victim  *workerProcess // will be killed
	last    string         // the job before the one that dies with the victim
	freed   int64          // when that job released the lock
	shown   int            // how much of the line was printed
	through int            // how many jobs are done
	failed  error
}

// jobs plays the first scenario.
func (s *session) jobs() error {
	count := max(24, 3*len(s.pool.workers))
	s.screen.heading("Jobs, one at a time, in the order in which they came")
	g, err := s.shut("jobs")
	if err != nil {
		return err
	}
	defer g.abandon()
	scenario, err := s.lineUp(count)
	if err != nil {
		return err
	}
	s.screen.say("%d jobs stand in line for one lock, by the server's own order:\n%s", count, s.screen.wrap(numbers(scenario.line)))
	if err := g.open(); err != nil {
		return err
	}
	if err := scenario.follow(); err != nil {
		return err
	}
	s.witness.inversions += scenario.order.inversions
	return s.replace(scenario.victim)
}

// lineUp lets the jobs ask one after the other, each when the one before is in the server's line.
func (s *session) lineUp(count int) (*jobsScenario, error) {
	workers := s.pool.workers
	scenario := &jobsScenario{session: s, of: make(map[string]int)}
	scenario.last = jobName(count/3 + 1)
	scenario.victim = workers[(count/3+1)%len(workers)] // job n+1 is that of the worker n modulo their number
	work := min(60*time.Millisecond, 2*time.Second/time.Duration(count))
	for n := 1; n <= count; n++ {
		who, worker := jobName(n), workers[(n-1)%len(workers)]
		scenario.of[who] = worker.number
		worker.send(request{Do: doJob, Lock: "jobs", Who: who, Work: work, Hold: who == scenario.last})
		state, err := s.until("jobs", func(state *fairlock.State) bool { return isLast(state, who) })
		if err != nil {
			return nil, err
		}
		scenario.line = notes(state)
	}
	for n := 1; n <= count; n++ {
		if len(scenario.line) != count || scenario.line[n-1] != jobName(n) {
			s.witness.breaks("%d jobs came one after the other, and the line is: %s", count, numbers(scenario.line))
			break
		}
	}
	scenario.order = newOrder(scenario.line)
	return scenario, nil
}

func jobName(n int) string { return fmt.Sprintf("job %d", n) }

// numbers returns a line of jobs in short form.
func numbers(line []string) string {
	short := make([]string, len(line))
	for i, who := range line {
		_, short[i], _ = strings.Cut(who, " ")
	}
	return strings.Join(short, " ")
}

// follow handles events until all jobs of living workers are done.
func (s *jobsScenario) follow() error {
	expected := 0 // the victim's earlier turns are over when it dies, but it may not live to report the last of them
	for _, who := range s.line {
		if !s.isVictims(who) {
			expected++
		}
	}
	err := s.each(func(e event) bool {
		if e.Lock == "jobs" { // other workers may be late to report that they have left another lock
			s.take(e)
		}
		return s.failed != nil || s.through == expected
	})
	s.showLost(len(s.line))
	return cmp.Or(s.failed, err)
}

func (s *jobsScenario) take(e event) {
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

func (s *jobsScenario) isVictims(who string) bool { return s.of[who] == s.victim.number }

// enters prints a job that has the lock.
func (s *jobsScenario) enters(e event) {
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

// showLost prints the jobs before a place that died with their worker.
func (s *jobsScenario) showLost(place int) {
	for ; s.shown < place; s.shown++ {
		s.screen.lost(s.line[s.shown], s.of[s.line[s.shown]])
	}
}

// strike kills the worker that is next in line while the lock is held. Then it lets the holder go
// on.
func (s *jobsScenario) strike() error {
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
	s.pool.workers[s.of[s.last]].send(request{Do: doFinish, Who: s.last})
	return nil
}

// replace starts a worker in place of one that was killed.
func (s *session) replace(p *workerProcess) error {
	if err := s.pool.start(p.number); err != nil {
		return err
	}
	return s.warmUp(s.pool.workers[p.number])
}
