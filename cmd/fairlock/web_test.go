package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/test/redistest"
)

// page starts fairlock web and returns it and its address.
func page(t *testing.T, env []string, args ...string) (p *tool, address string) {
	t.Helper()
	p = fairlockWith(t, env, append([]string{"web", "--listen", "127.0.0.1:0", "--json"}, args...)...).start()
	var where struct{ URL string }
	must(t, json.Unmarshal([]byte(p.line()), &where))
	return p, where.URL
}

// fetch sends a request and returns the answer.
func fetch(t *testing.T, method, address string, form url.Values) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

func TestWebServesUntilASignalAlsoWhileBrowsersAreTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, observer(t, s), "order:42")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p, address := page(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()})
		if text := fetch(t, http.MethodGet, address, nil); !strings.Contains(text, "order:42") {
			t.Errorf("it shows %s", text)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"events", nil)
		must(t, err)
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		must(t, err)
		_, err = answer.Body.Read(make([]byte, 100))
		must(t, err)
		must(t, p.cmd.Process.Signal(signal))
		p.ends(128 + int(signal))
		_ = answer.Body.Close()
		if text := p.stderr.String(); text != "" {
			t.Errorf("stderr: %s", text)
		}
	}
}

func TestWebWritesDownWhatIsChangedFromIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, observer(t, s), "x"+evil, fairlock.Note("the holder"+evil))
	p, address := page(t, []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}, "--allow-changes")
	ask := address + "force?" + url.Values{"name": {lease.Name()}, "token": {jsonNumber(lease.Token())}}.Encode()
	seal := regexp.MustCompile(`[0-9a-f]{64}`).FindString(fetch(t, http.MethodGet, ask, nil))
	fetch(t, http.MethodPost, ask, url.Values{"seal": {seal}})
	<-lease.Done()
	line := p.line()
	harmless(t, "web", line)
	var did struct {
		Did, Name, Whose, From string
	}
	must(t, json.Unmarshal([]byte(line), &did))
	if did.Did != "force" || !strings.HasPrefix(did.Name, "x\x1b[31m") || did.Whose != jsonNumber(lease.Token()) || !strings.HasPrefix(did.From, "127.0.0.1:") {
		t.Errorf("%s", line)
	}
}

func jsonNumber(n int64) string {
	text, _ := json.Marshal(n) // never fails
	return string(text)
}

func TestWebRefusesAtOnceWhatCannotWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	env := []string{"FAIRLOCK_REDIS=redis://" + s.Addr()}
	_, address := page(t, env)
	for _, test := range []struct {
		code int
		says string
		args []string
	}{
		{64, "needs a --token", []string{"--listen", "0.0.0.0:0"}},
		{64, "has 5 characters", []string{"--listen", "0.0.0.0:0", "--token", "short"}},
		{64, "HOST:PORT", []string{"--listen", "8379"}},
		{69, "in use", []string{"--listen", strings.Trim(strings.TrimPrefix(address, "http://"), "/")}},
		{69, "refused", []string{"--listen", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1"}},
	} {
		p := fairlockWith(t, env, append([]string{"web"}, test.args...)...).start()
		p.ends(test.code)
		p.complains(test.says)
	}
}

// The rules of docs/security.md are for fairlock web, too.
func TestWebNeedsNoMoreRightsThanItIsSaidTo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	for _, user := range []string{"shop-monitor", "shop-operator"} {
		s := redistest.Start(t)
		rule := regexp.MustCompile(`ACL SETUSER ` + user + ` [^\x60]*`).Find(text)
		var command []any
		for word := range bytes.FieldsSeq(rule) {
			command = append(command, string(word))
		}
		admin := s.Client(t)
		must(t, admin.Do(t.Context(), command...).Err())
		locker := fairlock.New(admin, fairlock.WithPrefix("shop"))
		t.Cleanup(func() { _ = locker.Close() })
		lease, err := locker.Lock(t.Context(), "order:42", fairlock.Note("the holder"))
		must(t, err)
		t.Cleanup(func() { _ = lease.Unlock(context.Background()) }) // one of the two is forced
		_, address := page(t, []string{"FAIRLOCK_REDIS=redis://" + user + ":password@" + s.Addr(), "FAIRLOCK_PREFIX=shop"}, "--allow-changes")
		for _, path := range []string{"", "lock?name=order:42"} {
			if text := fetch(t, http.MethodGet, address+path, nil); !strings.Contains(text, "the holder") {
				t.Errorf("%s: %s", user, text)
			}
		}
		ask := address + "force?name=order:42&token=" + jsonNumber(lease.Token())
		seal := regexp.MustCompile(`[0-9a-f]{64}`).FindString(fetch(t, http.MethodGet, ask, nil))
		eventually(t, "it listens", func() bool { return admin.PubSubNumPat(t.Context()).Val() >= 4 })
		checkRefused(t, admin)
		said := fetch(t, http.MethodPost, ask, url.Values{"seal": {seal}})
		if may := user == "shop-operator"; strings.Contains(said, "was ended") != may || (lease.Err() != nil) && !may {
			t.Errorf("%s: %s", user, said)
		}
	}
}

func TestWebThatMayNotHearOfHandOversSaysSoAndSeldomAsksAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := s.Client(t)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "looker", "on", "nopass", "~*", "&*", "+@all", "-psubscribe").Err())
	_, address := page(t, []string{"FAIRLOCK_REDIS=redis://looker:any@" + s.Addr()})
	eventually(t, "the page says so", func() bool {
		return strings.Contains(fetch(t, http.MethodGet, address, nil), "does not let this user hear")
	})
	const longer = 5 * time.Second // than the pause after another failure: it would have asked once more
	for began := time.Now(); time.Since(began) < longer; time.Sleep(100 * time.Millisecond) {
		fetch(t, http.MethodGet, address, nil) // somebody looks on
	}
	for _, entry := range admin.ACLLog(t.Context(), 10).Val() {
		if entry.Object == "psubscribe" && entry.Count > 2 { // fair locks and plain ones
			t.Errorf("it asked again: %+v", *entry)
		}
	}
}

// checkRefused fails if the server has refused anything that the library needs.
func checkRefused(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for _, entry := range rdb.ACLLog(t.Context(), 10).Val() {
		if entry.Object != "client|setinfo" {
			t.Errorf("refused: %+v", *entry)
		}
	}
}
