package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairlock/locks/test/redistest"
)

func TestWebAnswersAChangeAlthoughNobodyReadsOfItAndWritesItDownWhenSomebodyDoes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := fairlockWith(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "web", "--listen", "127.0.0.1:0", "--json", "--allow-changes")
	read, write := pipe(t)
	p.cmd.Stdout = write
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	out := bufio.NewReader(read)
	line, err := out.ReadBytes('\n')
	must(t, err)
	var where struct{ URL string }
	must(t, json.Unmarshal(line, &where))
	fill(t, write)
	for _, name := range []string{"x", "y"} {
		lease := take(t, observer(t, s), name)
		ask := where.URL + "force?" + url.Values{"name": {name}, "token": {jsonNumber(lease.Token())}}.Encode()
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
	for _, name := range []string{"x", "y"} {
		line, err := out.ReadString('\n')
		must(t, err)
		if !strings.Contains(line, `"name":"`+name+`"`) {
			t.Errorf("after that it writes %q, want %s", strings.TrimLeft(line, "."), name)
		}
	}
}
