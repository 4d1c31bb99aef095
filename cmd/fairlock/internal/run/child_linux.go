package run

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes fairlock the parent of the command's descendants whose own parent dies, so that none
// of them gets lost.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// offspring reports whether processes live that the child has started or left behind in its process
// group, and returns those outside of it as strays.
func (c *child) offspring() (group bool, strays []int) {
	in, out, err := c.kin()
	if err != nil {
		return c.groupExists(), nil
	}
	for _, p := range out {
		strays = append(strays, p.pid)
	}
	return len(in) > 0, strays
}

// kin finds the living processes that the child has started or left behind, in its process group
// and outside. A job of a shell, or of timeout(1), has a group of its own. A process with a session
// of its own is a daemon, which fairlock leaves alone. So it does what it had before the command:
// see bystanders.
func (c *child) kin() (group, strays []procfs, err error) {
	all, err := processes()
	if err != nil {
		return nil, nil, err
	}
	session, _ := unix.Getsid(0) // our own session: cannot fail
	own := unix.Getpgrp()        // never the command's, so what is in it is none of the command's either
	var visit func(parent int)
	visit = func(parent int) {
		for _, p := range all[parent] {
			if started, known := c.bystanders[p.pid]; p.group == own || known && started == p.started {
				continue
			}
			switch {
			case p.dead || p.pid == c.guard.pid():
			case p.group == c.pid:
				group = append(group, p)
			case p.session == session:
				strays = append(strays, p)
			}
			visit(p.pid)
		}
	}
	visit(os.Getpid())
	return group, strays, nil
}

// bystanders returns the descendants that fairlock has before it starts the command, with the time
// at which each started. A shell that becomes fairlock (exec, or the last command of bash -c)
// leaves it its own children, say the gzip of >(gzip): the command has not started them.
func bystanders() map[int]uint64 {
	all, err := processes()
	if err != nil {
		return nil
	}
	found := make(map[int]uint64)
	var visit func(parent int)
	visit = func(parent int) {
		for _, p := range all[parent] {
			found[p.pid] = p.started
			visit(p.pid)
		}
	}
	visit(os.Getpid())
	return found
}

// procfs is a process as /proc shows it.
type procfs struct {
	pid, parent, group, session int

	started uint64 // a clock's tick: with it a process can be told from a later one with its pid
	dead    bool   // but not waited for yet
	stopped bool   // by a signal, or by its debugger
}

// processes returns all processes, by parent.
func processes() (map[int][]procfs, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int][]procfs)
	for _, name := range names {
		var p procfs
		if p.pid, err = strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := fs.ReadFile(os.DirFS("/proc"), name+"/stat")
		if err != nil {
			continue // the process has ended
		}
		// "pid (name) state parent group session ...": the name may have any characters.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for i, number := range []*int{&p.parent, &p.group, &p.session} {
			if *number, err = strconv.Atoi(string(fields[i+1])); err != nil {
				return nil, err
			}
		}
		if p.started, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
			return nil, err
		}
		p.dead = fields[0][0] == 'Z' || fields[0][0] == 'X'
		p.stopped = fields[0][0] == 'T' || fields[0][0] == 't'
		all[p.parent] = append(all[p.parent], p)
	}
	return all, nil
}

// minded reports whether a shell sees our process group stop, and can wake it: the parent of one of
// its processes, in another group of our session. We may be part of a script or a pipeline.
func minded() bool { minds, err := shell(); return err == nil && minds }

// mindedIsCertain says that minded is no guess.
const mindedIsCertain = true

// orphaned reports whether no shell does.
func orphaned() bool { minds, err := shell(); return err == nil && !minds }

func shell() (minds bool, err error) {
	all, err := processes()
	if err != nil {
		return false, err
	}
	session, _ := unix.Getsid(0) // cannot fail
	own := unix.Getpgrp()
	theirs := make(map[int]bool) // the parents of processes of our group
	for parent, children := range all {
		for _, p := range children {
			theirs[parent] = theirs[parent] || p.group == own && !p.dead
		}
	}
	for _, children := range all {
		for _, p := range children {
			if theirs[p.pid] && p.group != own && p.session == session {
				return true, nil
			}
		}
	}
	return false, nil
}

// ignored reports whether we were started to ignore a signal that was not caught since. The Go
// runtime knows that of SIGHUP and SIGINT only.
func ignored(s syscall.Signal) bool {
	status, _ := fs.ReadFile(os.DirFS("/proc"), "self/status")
	_, mask, _ := bytes.Cut(status, []byte("\nSigIgn:\t"))
	mask, _, _ = bytes.Cut(mask, []byte("\n"))
	set, err := strconv.ParseUint(string(mask), 16, 64)
	return err == nil && set>>(s-1)&1 == 1
}
