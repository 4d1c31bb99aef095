package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
)

var trialsOfStreams = []trial{
	{"a pipe on standard input", "is the command's", "is the command's with -pass-stdin", "is the command's", func(s *fixture) string {
		p := s.sh(nil, `read line; echo "<$line>"`)
		fmt.Fprintln(p.stdin, "hello")
		p.says("<hello>")
		return "is the command's"
	}},
	{"1 MB in and out again", "every byte", "every byte, with -pass-stdin", "every byte", func(s *fixture) string {
		in := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(in)
		cmd := s.command(nil, "cat")
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		must(s.T, err)
		if !bytes.Equal(in, out) {
			return fmt.Sprintf("%d bytes", len(out))
		}
		return "every byte"
	}},
	{"1 MB to both outputs at once", "every byte", "every byte", "every byte", func(s *fixture) string {
		cmd := s.command(nil, "sh", "-c", "head -c 1000000 /dev/zero & head -c 1000000 /dev/zero >&2; wait")
		var out, err bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &err
		must(s.T, cmd.Run())
		if out.Len() != 1_000_000 || err.Len() != 1_000_000 {
			return fmt.Sprintf("%d and %d bytes", out.Len(), err.Len())
		}
		return "every byte"
	}},
	{"the reader of its output goes away", "141", "0; 2 with -child-exit-code", "141", func(s *fixture) string {
		read, write, err := os.Pipe()
		must(s.T, err)
		cmd := s.command(nil, "yes")
		cmd.Stdout = write
		must(s.T, cmd.Start())
		must(s.T, write.Close())
		_, _ = read.Read(make([]byte, 10))
		must(s.T, read.Close())
		_ = cmd.Wait()
		return fmt.Sprint(asAShellSees(cmd.ProcessState))
	}},
	{"standard output is closed (>&-)", "the command cannot write", "what it writes is dropped", "what it writes is dropped", func(s *fixture) string {
		if s.ended(s.through("exec >&-; ", s.command(nil, "sh", "-c", "echo x 2>/dev/null"))) != 0 {
			return "the command cannot write"
		}
		return "what it writes is dropped"
	}},
	{"an open file beside the three", "is the command's", "is the command's", "is the command's", func(s *fixture) string {
		p := s.through("exec 5<<END\nhello\nEND\n", s.command(nil, "sh", "-c", "cat <&5"))
		p.says("hello")
		return "is the command's"
	}},
	{"nobody reads its complaints when the lock is lost", "-", "-", "76", func(s *fixture) string {
		read, write, err := os.Pipe()
		must(s.T, err)
		cmd := s.command(runFlags{"--lease=3s"}, "sh", "-c", "echo in; exec sleep 60")
		out, err := cmd.StdoutPipe()
		must(s.T, err)
		cmd.Stderr = write
		must(s.T, cmd.Start())
		must(s.T, write.Close())
		must(s.T, read.Close())
		_, _ = out.Read(make([]byte, 10))
		must(s.T, s.locker.ForceUnlock(s.Context(), s.name))
		_ = cmd.Wait()
		return fmt.Sprint(asAShellSees(cmd.ProcessState))
	}},
}
