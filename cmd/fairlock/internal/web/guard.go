package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// policy lets the page load what this server serves, and nothing else. No script or style stands in
// the page itself, so what stands in a name can be neither.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard lets only requests through that a person may have meant. Without a token only those get
// here that name this machine; other sites can make a browser send requests here, but not under
// such a name.
func guard(token string, next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next) // of what changes anything
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case token == "" && !isLoopback(r.Host):
			http.Error(w, "this is not the name of this machine: use 127.0.0.1 or localhost, or start fairlock web with a token", http.StatusMisdirectedRequest)
		case byOthers(r):
			http.Error(w, "another site has asked for this", http.StatusForbidden)
		case token != "" && !knows(r, token):
			h.Set("WWW-Authenticate", `Basic realm="fairlock", charset="UTF-8"`)
			http.Error(w, "the token of fairlock web, as the password with any user name or as a bearer token", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether host, with or without a port, is a name of this machine alone.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// byOthers reports whether a page of another site wants to have this one in itself. To lead here by
// a link is fine.
func byOthers(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// knows reports whether a request comes with the token.
func knows(r *http.Request, token string) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, given, _ = r.BasicAuth()
	}
	// Of the sums, so that the time it takes does not even tell how long the token is.
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
