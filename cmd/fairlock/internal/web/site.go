package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/fairlock"
)

//go:embed assets
var assets embed.FS

var templates = template.Must(template.ParseFS(assets, "assets/*.html"))

const (
	// patience bounds how long a page waits for the Redis.
	patience = 10 * time.Second
	// mostStreams bounds how many browsers are told of changes at the same time.
	mostStreams = 64
	// calm is the least time between two things that a browser is told.
	calm = 250 * time.Millisecond
	// beat is how often a stream shows that it lives, and that somebody looks.
	beat = 10 * time.Second
)

// site answers requests.
type site struct {
	watcher *watcher
	server  string       // where the locks are
	changes bool         // force and evict are possible
	secret  []byte       // seals forms
	report  func(change) // of each change, at once; it must not wait for a reader
	streams chan struct{}

	changing sync.RWMutex // read-locked by each change on its way; locked for good as the site ends
}

// frame is what all pages have.
type frame struct {
	Title, Server string
	Changes       bool
	At, Every     string // when the last look was, and how often there is one
	Zone          string // of all times
	Trouble       string // why there is none
	Stream        string // the address of the events that change the page; "": it stays
	invalid       bool   // it was asked for something that makes no sense
}

// zone is the layout of a time zone: who looks may be in another.
const zone = "UTC-07:00"

func (s *site) frame(v view) frame {
	f := frame{Title: s.server, Server: s.server, Changes: s.changes}
	if v.failed != nil {
		f.Trouble = "No look since " + v.since.Format("15:04:05 "+zone) + ": " + look.Error(v.failed)
		f.invalid = errors.Is(v.failed, fairlock.ErrInvalid)
		return f
	}
	if v.looked.IsZero() {
		f.Trouble = "The Redis has not answered within " + patience.String()
		return f
	}
	f.At, f.Every, f.Zone = v.looked.Format("15:04:05"), look.Span(v.rest), v.looked.Format(zone)
	return f
}

// handler returns what answers requests, unguarded.
func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page("overview", s.overview))
	mux.HandleFunc("GET /lock", s.page("lock", s.lock))
	mux.HandleFunc("GET /events", s.events)
	for _, c := range []action{{"force", s.toForce}, {"evict", s.toEvict}} {
		mux.HandleFunc("GET /"+c.verb, s.ask(c))
		mux.HandleFunc("POST /"+c.verb, s.do(c))
	}
	for _, name := range []string{"style.css", "page.js", "favicon.svg"} {
		mux.HandleFunc("GET /"+name, asset(name))
	}
	return mux
}

// asset serves a file. Browsers ask each time whether they have the present one.
func asset(name string) http.HandlerFunc {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it was there when this was compiled
	}
	sum := sha256.Sum256(text)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"`+hex.EncodeToString(sum[:8])+`"`)
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	}
}

// maker makes a page, and says where in it the frame is.
type maker func(*http.Request) (page any, in *frame)

// page serves a page as it is now.
func (s *site) page(name string, makes maker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.knows(w, r) {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		page, in := makes(r.WithContext(ctx))
		status := http.StatusOK
		switch {
		case in.invalid:
			status = http.StatusBadRequest
		case in.Trouble != "":
			status = http.StatusServiceUnavailable // what was seen before is shown all the same
		}
		s.render(w, status, name+".page", page)
	}
}

// knows refuses to look at locks of a kind that was not chosen.
func (s *site) knows(w http.ResponseWriter, r *http.Request) bool {
	if !r.URL.Query().Has("name") && r.URL.Path != "/lock" { // that page is of a lock, also if it names none
		return true
	}
	k := keyOf(r)
	if _, ok := s.watcher.lockers[k.kind]; !ok {
		s.say(w, http.StatusNotFound, notice{Heading: "Not looked at", Text: []string{"This page does not show " + k.kind + " locks."}, Back: "/"})
		return false
	}
	return true
}

// render serves a page, whole or not at all.
func (s *site) render(w http.ResponseWriter, status int, name string, page any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, page); err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = text.WriteTo(w) // an error means that nobody is there any more
}

// notice is a page that says one thing.
type notice struct {
	frame
	Heading string
	Text    []string
	Back    string
}

func (s *site) say(w http.ResponseWriter, status int, n notice) {
	n.frame = frame{Title: n.Heading, Server: s.server, Changes: s.changes}
	s.render(w, status, "notice.page", n)
}

// events tells a browser of each change, until it goes.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	if !s.knows(w, r) {
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many browsers are told of changes already", http.StatusServiceUnavailable)
		return
	}
	name, makes := "overview", maker(s.overview)
	if r.URL.Query().Has("name") {
		name, makes = "lock", s.lock
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in between passes each event on at once
	stream := http.NewResponseController(w)
	send := func(text string) error {
		if err := stream.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(w, text+"\n\n"); err != nil {
			return err
		}
		return stream.Flush()
	}
	if send("retry: 2000") != nil {
		return
	}
	for r.Context().Err() == nil {
		changed := s.watcher.change()
		page, in := makes(r)
		event, err := eventOf(name, page, in)
		if err != nil || send(event) != nil || !rest(r.Context(), changed) {
			return
		}
	}
}

// rest waits until there is something to tell, and never for less than calm or more than a beat. It
// returns false if the browser is gone.
func rest(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-time.After(calm):
	case <-ctx.Done():
		return false
	}
	select {
	case <-changed:
	case <-time.After(beat - calm):
	case <-ctx.Done():
		return false
	}
	return true
}

// eventOf is a page as an event, in one line whatever is in it.
func eventOf(name string, page any, in *frame) (string, error) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, page); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{"title": in.Title, "html": text.String()})
	return "data: " + string(data), err
}
