package run

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// adopt makes us the parent of whoever loses his own and came of a child of ours: so that none of
// them gets lost.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// offspring is what lives of all that the child has started, or left behind: whether there is
// something in its process group, and who is outside of it. A job of a shell, or of timeout(1), is
// in a group of its own; who has a session of his own is a daemon, and no longer meant.
func (c *child) offspring() (group bool, strays []int) {
	all, err := processes()
	if err != nil {
		return c.groupExists(), nil
	}
	session, _ := unix.Getsid(0) // of ourselves: it cannot fail
	var visit func(parent int)
	visit = func(parent int) {
		for _, p := range all[parent] {
			switch {
			case p.dead || p.pid == c.guard.pid():
			case p.group == c.pid:
				group = true
			case p.session == session:
				strays = append(strays, p.pid)
			}
			visit(p.pid)
		}
	}
	visit(os.Getpid())
	return group, strays
}

// procfs is a process, as /proc shows it.
type procfs struct {
	pid, parent, group, session int

	dead bool // and not yet buried
}

// processes lists all, by parent.
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
			continue // it has ended
		}
		// "pid (what it calls itself) state parent group session ...": it may call itself anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for i, number := range []*int{&p.parent, &p.group, &p.session} {
			if *number, err = strconv.Atoi(string(fields[i+1])); err != nil {
				return nil, err
			}
		}
		p.dead = fields[0][0] == 'Z' || fields[0][0] == 'X'
		all[p.parent] = append(all[p.parent], p)
	}
	return all, nil
}
