package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// pageInto starts fairlock web with a pipe as its standard output, and returns both ends.
func pageInto(t *testing.T, s *redistest.Server) (p *tool, address string, read, write *os.File) {
	t.Helper()
	p = fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "web", "--listen", "127.0.0.1:0", "--json", "--allow-changes")
	read, write = pipe(t)
	p.cmd.Stdout = write
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	var line []byte
	for one := make([]byte, 1); one[0] != '\n'; line = append(line, one[0]) {
		_, err := read.Read(one)
		must(t, err)
	}
	var where struct{ URL string }
	must(t, json.Unmarshal(line, &where))
	return p, where.URL, read, write
}

// forcesBy forces a lock by the page.
func (p *tool) forcesBy(address string, lease *fairlock.Lease) {
	t := p.t
	t.Helper()
	ask := address + "force?" + url.Values{"name": {lease.Name()}, "token": {jsonNumber(lease.Token())}}.Encode()
	seal := regexp.MustCompile(`[0-9a-f]{64}`).FindString(fetch(t, http.MethodGet, ask, nil))
	said := make(chan string, 1)
	go func() {
		defer close(said)
		said <- fetch(t, http.MethodPost, ask, url.Values{"seal": {seal}})
	}()
	select {
	case said := <-said:
		if !strings.Contains(said, "was ended") {
			t.Errorf("it says %s", said)
		}
	case <-time.After(patienceOfTests / 4):
		_ = p.cmd.Process.Kill()
		<-said // the request ends
		t.Fatal("no answer")
	}
}

func TestWebOutlivesWhoHasReadItsAddress(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, address, read, _ := pageInto(t, s)
	must(t, read.Close())
	for _, name := range []string{"x", "y"} {
		p.forcesBy(address, take(t, observer(t, s), name))
	}
	eventually(t, "it says so", func() bool { return strings.Contains(p.stderr.String(), "broken pipe") })
}

func TestWebAnswersAChangeAlthoughNobodyReadsOfItAndWritesItDownWhenSomebodyDoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, address, read, write := pageInto(t, s)
	out := bufio.NewReader(read)
	fill(t, write)
	for _, name := range []string{"x", "y"} {
		p.forcesBy(address, take(t, observer(t, s), name))
	}
	for _, name := range []string{"x", "y"} {
		line, err := out.ReadString('\n')
		must(t, err)
		if !strings.Contains(line, `"name":"`+name+`"`) {
			t.Errorf("after that it writes %q, want %s", strings.TrimLeft(line, "."), name)
		}
	}
}
