package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
	"github.com/fairlock/locks/test/redistest"
)

const token = "correct-horse-battery"

func TestAnAddressThatOthersReachNeedsATokenThatIsNotShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, token, says string
	}{
		{"127.0.0.1:0", "", ""},
		{"localhost:8379", "", ""},
		{"[::1]:8379", "", ""},
		{"127.8.9.1:8379", "", ""},
		{":8379", token, ""},
		{":8379", "", "needs a --token"},
		{"0.0.0.0:8379", "", "needs a --token"},
		{"[::]:8379", "", "needs a --token"},
		{"10.0.0.7:8379", "", "needs a --token"},
		{"localhost.example.com:8379", "", "needs a --token"},
		{"127.0.0.1:0", "short", "has 5 characters"},
		{"8379", "", "HOST:PORT"},
	} {
		err := (&Command{Listen: c.listen, Token: c.token}).check()
		if c.says == "" && err != nil || c.says != "" && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s with %q: %v, want %q", c.listen, c.token, err, c.says)
		}
	}
}

func TestWithoutATokenOnlyTheNamesOfThisMachineAreAnswered(t *testing.T) {
	t.Parallel()
	c := serves(t, redistest.Start(t).Addr(), true, "")
	for host, want := range map[string]int{
		"127.0.0.1:8379": 200, "localhost": 200, "LOCALHOST:1": 200, "[::1]:8379": 200,
		"evil.example:8379": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "": 200, // then Go sends the address
	} {
		if got, _, body := c.asks(http.MethodGet, "/", nil, header("Host", host)); got != want {
			t.Errorf("Host %q: %d, want %d: %s", host, got, want, body)
		}
	}
}

func TestWithATokenNothingIsAnsweredWithoutIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "x")
	c := serves(t, s.Addr(), true, token)
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	none := func(*http.Request) {}
	for _, path := range []string{"/", "/lock?name=x", "/events", "/style.css", in("/force", "x", "token", fmt.Sprint(lease.Token())), "/nothing"} {
		for what, with := range map[string]func(*http.Request){
			"nothing": none, "another": basic("me", token+"x"), "a part": basic("me", token[:10]), "the token as a name": basic(token, ""),
			"another bearer": header("Authorization", "Bearer x"+token), "half a header": header("Authorization", token),
		} {
			status, h, body := c.asks(http.MethodGet, path, nil, with)
			if status != http.StatusUnauthorized || !strings.HasPrefix(h.Get("Www-Authenticate"), "Basic ") || strings.Contains(body, token) {
				t.Errorf("%s with %s: %d %s", path, what, status, body)
			}
		}
		if status, _, _ := c.asks(http.MethodPost, path, nil); status != http.StatusUnauthorized {
			t.Errorf("POST %s: %d", path, status)
		}
	}
	for _, with := range []func(*http.Request){basic("anybody", token), header("Authorization", "Bearer "+token)} {
		status, _, _ := c.asks(http.MethodGet, "/", nil, with, header("Host", "locks.example.com"))
		if status != http.StatusOK {
			t.Errorf("with the token: %d", status)
		}
	}
	must(t, lease.Err())
}

func TestEveryAnswerForbidsWhatThePageDoesNotNeed(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.ContainsAny(strings.ReplaceAll(policy, "'self'", ""), ":*") || strings.Contains(policy, "unsafe") {
		t.Error("the policy lets more in than our own files: ", policy)
	}
	c := serves(t, redistest.Start(t).Addr(), false, "")
	for path, want := range map[string]int{"/": 200, "/lock?name=x": 200, "/style.css": 200, "/page.js": 200, "/favicon.svg": 200, "/nothing": 404, "/force?name=x": 403} {
		status, h, _ := c.asks(http.MethodGet, path, nil)
		if status != want || h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" ||
			h.Get("X-Frame-Options") != "DENY" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Set-Cookie") != "" || h.Get("Cache-Control") == "" {
			t.Errorf("%s: %d %v", path, status, h)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost} {
		if status, _, _ := c.asks(method, "/", nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s /: %d", method, status)
		}
	}
}

func TestAnotherSiteCanLeadToThePageAndDoNothingElseWithIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := take(t, locker(t, s.Addr()), "x")
	c := serves(t, s.Addr(), true, "")
	ask := in("/force", "x", "token", fmt.Sprint(lease.Token()))
	seal := url.Values{"seal": {sealIn(t, c.shows(http.StatusOK, ask))}}
	for _, r := range []struct {
		what, method, path string
		want               int
		headers            []func(*http.Request)
	}{
		{"a link", "GET", "/lock?name=x", 200, []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}},
		{"a frame", "GET", "/", 403, []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")}},
		{"an image", "GET", "/lock?name=y", 403, []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")}},
		{"a stream", "GET", "/events", 403, []func(*http.Request){header("Sec-Fetch-Site", "same-site"), header("Sec-Fetch-Mode", "cors"), header("Origin", "http://localhost:1")}},
		{"a form with the seal", "POST", ask, 403, []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}},
		{"an old browser's form", "POST", ask, 403, []func(*http.Request){header("Origin", "https://evil.example")}},
		{"a form of nowhere", "POST", ask, 403, []func(*http.Request){header("Origin", "null")}},
		{"another port", "POST", ask, 403, []func(*http.Request){header("Origin", "http://127.0.0.1:1")}},
	} {
		if got, _, body := c.asks(r.method, r.path, seal, r.headers...); got != r.want {
			t.Errorf("%s: %d, want %d: %s", r.what, got, r.want, body)
		}
	}
	must(t, lease.Err())
}
