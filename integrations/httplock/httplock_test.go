package httplock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
	"github.com/fairlock/locks/fairlock/locktest"
	"github.com/fairlock/locks/integrations/httplock"
	"github.com/fairlock/locks/test/redistest"
	"github.com/fairlock/locks/test/world"
)

// serve runs a server whose requests for /order wait for each other.
func serve(t *testing.T, l fairlock.Interface, o httplock.Options, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	byOrder, err := httplock.New(l, func(r *http.Request) string { return r.PathValue("order") }, o)
	world.Must(t, err)
	mux := http.NewServeMux()
	mux.Handle("POST /{order}", byOrder(handler))
	mux.Handle("GET /", byOrder(handler)) // without a key
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// answer is what a client is told.
type answer struct {
	status     int
	retryAfter string
	text       string
	err        error
}

func post(ctx context.Context, server *httptest.Server, path, body string) answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	response, err := server.Client().Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Retry-After"), strings.TrimSpace(string(text)), err}
}

// send posts in the background.
func send(ctx context.Context, server *httptest.Server, path, body string) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- post(ctx, server, path, body) }()
	return answers
}

// echo answers with the token and the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%d %s %v", httplock.Token(r.Context()), body, err)
}

func TestRequestsForOneKeyAreServedOneAtATimeInTheOrderInWhichTheyCameOnAllHosts(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		var busy, overlaps atomic.Int32
		handler := func(w http.ResponseWriter, r *http.Request) {
			if busy.Add(1) != 1 {
				overlaps.Add(1)
			}
			echo(w, r)
			busy.Add(-1)
		}
		hosts := []*httptest.Server{
			serve(t, world.Host(t, addr), httplock.Options{}, handler), serve(t, world.Host(t, addr), httplock.Options{}, handler),
		}
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		var answers []<-chan answer
		for n := range 4 {
			answers = append(answers, send(t.Context(), hosts[n%2], "/42", fmt.Sprint("request ", n)))
			world.UntilWaiting(t, admin, "42", n+1)
		}
		if a := post(t.Context(), hosts[0], "/43", "another"); a.status != http.StatusOK {
			t.Errorf("a request for another key was told %+v", a)
		}
		last := gate.Token()
		world.Must(t, gate.Unlock(t.Context()))
		for n, answers := range answers {
			a := <-answers
			token, text, _ := strings.Cut(a.text, " ")
			its, err := strconv.ParseInt(token, 10, 64)
			if text != fmt.Sprintf("request %d <nil>", n) || err != nil || its <= last {
				t.Errorf("request %d was told %+v after token %d", n, a, last)
			}
			last = its
		}
		if n := overlaps.Load(); n != 0 {
			t.Errorf("%d requests for one key were served beside another", n)
		}
	})
}

func TestARequestForWhichThereIsNoRoomIsToldWhenToComeBack(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		full := []fairlock.LockOption{fairlock.MaxWaiters(1)}
		short := []fairlock.LockOption{fairlock.WaitAtMost(0)}
		bounded := serve(t, world.Host(t, addr), httplock.Options{Lock: full, RetryAfter: 1200 * time.Millisecond}, echo)
		hurried := serve(t, world.Host(t, addr), httplock.Options{Lock: short, RetryAfter: math.MaxInt64}, echo)
		waits := send(t.Context(), bounded, "/42", "")
		world.UntilWaiting(t, admin, "42", 1)
		if a := post(t.Context(), bounded, "/42", ""); a.status != http.StatusTooManyRequests || a.retryAfter != "2" || !strings.Contains(a.text, "too many") {
			t.Errorf("who found the line full was told %+v", a)
		}
		if a := post(t.Context(), hurried, "/42", ""); a.status != http.StatusTooManyRequests || a.retryAfter != "9223372037" {
			t.Errorf("whose time was over was told %+v", a)
		}
		world.Must(t, gate.Unlock(t.Context()))
		if a := <-waits; a.status != http.StatusOK {
			t.Errorf("who waited was told %+v", a)
		}
	})
}

func TestAClientThatHangsUpLeavesTheLine(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		gate, err := admin.Lock(t.Context(), "42")
		world.Must(t, err)
		defer func() { world.Must(t, gate.Unlock(t.Context())) }()
		host := serve(t, world.Host(t, addr), httplock.Options{}, echo)
		ctx, hangUp := context.WithCancel(t.Context())
		answers := send(ctx, host, "/42", "a body that has to be read first")
		world.UntilWaiting(t, admin, "42", 1)
		hangUp()
		world.UntilWaiting(t, admin, "42", 0)
		if a := <-answers; !errors.Is(a.err, context.Canceled) {
			t.Errorf("who hung up was told %+v", a)
		}
	})
}

func TestAHandlerHearsThatItsLockIsLost(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		admin := world.Host(t, addr)
		host := serve(t, world.Host(t, addr, fairlock.WithLease(world.CalmLease)), httplock.Options{}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			http.Error(w, fmt.Sprint(errors.Is(context.Cause(r.Context()), fairlock.ErrLost)), http.StatusConflict)
		})
		answers := send(t.Context(), host, "/42", "")
		world.UntilHeld(t, admin, "42", true)
		world.Must(t, admin.ForceUnlock(t.Context(), "42"))
		if a := <-answers; a.status != http.StatusConflict || a.text != "true" {
			t.Errorf("the handler that lost its lock said %+v", a)
		}
	})
}

func TestALossThatOnlyTheReleaseNoticesIsALoss(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		type loss struct {
			path string
			err  error
		}
		admin, losses := world.Host(t, addr), make(chan loss, 2)
		host := serve(t, world.Host(t, addr), httplock.Options{
			Lost: func(r *http.Request, err error) { losses <- loss{r.URL.Path, err} },
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/42" {
				if err := admin.ForceUnlock(context.WithoutCancel(r.Context()), "42"); err != nil {
					t.Error(err)
				}
			}
			if r.URL.RawQuery == "abort" {
				panic(http.ErrAbortHandler)
			}
			echo(w, r)
		})
		for _, path := range []string{"/41", "/42"} { // the first keeps its lock
			if a := post(t.Context(), host, path, ""); a.status != http.StatusOK {
				t.Errorf("%s was told %+v", path, a)
			}
		}
		if l := world.Next(t, losses); l.path != "/42" || !errors.Is(l.err, fairlock.ErrLost) {
			t.Errorf("%+v is said to be lost", l)
		}
		for _, path := range []string{"/41?abort", "/42?abort"} {
			post(t.Context(), host, path, "")
		}
		if l := world.Next(t, losses); l.path != "/42" || !errors.Is(l.err, fairlock.ErrLost) {
			t.Errorf("%+v is said to be lost, and its handler panicked", l)
		}
	})
}

func TestAServerThatIsAwayAndALockerThatIsClosedAreUnavailable(t *testing.T) {
	s := redistest.Start(t)
	away, closed := world.Host(t, s.Addr()), world.Host(t, s.Addr())
	_ = closed.Close()
	hosts := map[string]*httptest.Server{
		"away": serve(t, away, httplock.Options{}, echo), "closed": serve(t, closed, httplock.Options{}, echo),
	}
	s.Kill()
	for name, host := range hosts {
		if a := post(t.Context(), host, "/42", ""); a.status != http.StatusServiceUnavailable || a.retryAfter != "1" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestABodyThatIsTooLargeOrANameThatIsNoneIsTheClientsFault(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		host := serve(t, world.Host(t, addr), httplock.Options{MaxBody: 4}, echo)
		if a := post(t.Context(), host, "/42", "12345"); a.status != http.StatusRequestEntityTooLarge || a.retryAfter != "" {
			t.Errorf("a body that is too large: %+v", a)
		}
		if a := post(t.Context(), host, "/"+strings.Repeat("x", 3000), ""); a.status != http.StatusBadRequest || a.retryAfter != "" {
			t.Errorf("a name that is too long: %+v", a)
		}
		if a := post(t.Context(), host, "/42", "1234"); a.status != http.StatusOK || !strings.HasSuffix(a.text, " 1234 <nil>") {
			t.Errorf("a body that is just small enough: %+v", a)
		}
	})
}

func TestAKeyMayBeReadFromABodyThatIsPutBack(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		byFirst, err := httplock.New(world.Host(t, addr), func(r *http.Request) string {
			first := make([]byte, 2)
			n, err := io.ReadFull(r.Body, first)
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(first[:n]), r.Body))
			if err != nil {
				return ""
			}
			return string(first)
		}, httplock.Options{MaxBody: 4})
		world.Must(t, err)
		host := httptest.NewServer(byFirst(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%q %s %v", httplock.Lease(r.Context()).Name(), body, err)
		})))
		t.Cleanup(host.Close)
		for body, want := range map[string]answer{
			"1234":  {status: http.StatusOK, text: `"12" 1234 <nil>`},
			"1":     {status: http.StatusOK, text: `"" 1 <nil>`},
			"12345": {status: http.StatusRequestEntityTooLarge},
		} {
			a := post(t.Context(), host, "/", body)
			if a.status != want.status || want.text != "" && a.text != want.text {
				t.Errorf("%q: %+v, want %+v", body, a, want)
			}
		}
	})
}

func TestTheFilesOfAFormAreRemovedWhenTheHandlerIsDone(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		return len(entries)
	}
	server, err := embedded.Start()
	world.Must(t, err)
	t.Cleanup(server.Close)
	always, err := httplock.New(world.Host(t, server.Addr()), func(*http.Request) string { return "42" }, httplock.Options{})
	world.Must(t, err)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("scan", "scan.pdf")
	world.Must(t, err)
	_, err = part.Write(make([]byte, 1<<16))
	world.Must(t, err)
	world.Must(t, form.Close())
	r := httptest.NewRequest(http.MethodPost, "/", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	always(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil || files() != 1 {
			t.Errorf("%v, with %d files", err, files())
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	if n := files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestARequestWithoutABodyIsServed(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		always, err := httplock.New(world.Host(t, addr), func(*http.Request) string { return "42" }, httplock.Options{})
		world.Must(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil) // as a program's own tests make one
		world.Must(t, err)
		w := httptest.NewRecorder()
		always(http.HandlerFunc(echo)).ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), "  <nil>") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestARequestWithoutAKeyNeedsNoLock(t *testing.T) {
	host := serve(t, world.Host(t, "127.0.0.1:1"), httplock.Options{}, echo) // no server is asked
	response, err := host.Client().Get(host.URL)
	world.Must(t, err)
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "0  <nil>" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAnAnswerOfTheUsersOwnIsGivenInsteadAndIsToldWhy(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		gate, err := world.Host(t, addr).Lock(t.Context(), "42")
		world.Must(t, err)
		defer func() { world.Must(t, gate.Unlock(t.Context())) }()
		host := serve(t, world.Host(t, addr), httplock.Options{
			Lock: []fairlock.LockOption{fairlock.WaitAtMost(0)},
			Refuse: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"held":%t}`, errors.Is(err, fairlock.ErrHeld))
			},
		}, echo)
		if a := post(t.Context(), host, "/42", ""); a.status != 429 || a.retryAfter != "1" || a.text != `{"held":true}` {
			t.Errorf("%+v", a)
		}
	})
}

func TestAHandlerThatPanicsGivesTheLockBack(t *testing.T) {
	world.OnBoth(t, func(t *testing.T, addr string) {
		l := world.Host(t, addr)
		host := serve(t, l, httplock.Options{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if a := post(t.Context(), host, "/42", ""); a.err == nil {
			t.Errorf("%+v", a)
		}
		lease, err := world.Host(t, addr).Lock(t.Context(), "42") // long before the lease would end
		world.Must(t, err)
		world.Must(t, lease.Unlock(t.Context()))
	})
}

func TestWhatMakesNoSenseIsAnErrorAtOnce(t *testing.T) {
	l := world.Host(t, "127.0.0.1:1") // nobody is asked
	key := func(*http.Request) string { return "42" }
	for what, err := range map[string]error{
		"no Locker":       made(httplock.New(nil, key, httplock.Options{})),
		"no key":          made(httplock.New(l, nil, httplock.Options{})),
		"a negative time": made(httplock.New(l, key, httplock.Options{RetryAfter: -1})),
		"a negative size": made(httplock.New(l, key, httplock.Options{MaxBody: -1})),
		"a lock's option": made(httplock.New(l, key, httplock.Options{Lock: []fairlock.LockOption{fairlock.MaxWaiters(-1)}})),
		"a Locker's":      made(httplock.New(world.Host(t, "127.0.0.1:1", fairlock.WithPrefix("{")), key, httplock.Options{})),
	} {
		if !errors.Is(err, fairlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func made(_ func(http.Handler) http.Handler, err error) error { return err }

func TestAHandlerThatGaveTheLockBackAndPanicsHasLostNothing(t *testing.T) {
	told := func(_ *http.Request, err error) { t.Errorf("Lost was told %v", err) }
	with, err := httplock.New(locktest.New(t), func(*http.Request) string { return "a" }, httplock.Options{Lost: told})
	if err != nil {
		t.Fatal(err)
	}
	h := with(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := httplock.Lease(r.Context()).Unlock(r.Context()); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("it panics with %v", p)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
}
