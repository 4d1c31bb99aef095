package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
)

// perPage is how many locks or waiters are shown at once.
const perPage = 100

// overview is the page of all locks.
type overview struct {
	frame
	Figures []label
	Plots   []plot
	Lately  []said
	Deaf    string
	Query   string
	Sorts   []sortLink
	Sort    string // as it stands in the address
	Rows    []row
	Pager   pager
}

// label is a word and a figure.
type label struct{ Name, Value string }

// row is a lock in the table.
type row struct {
	ID, Name, Href, Holder                  string
	Kind                                    string // "" if it is fair, like most
	Waiting, Rate, Longest, Held, Remaining string
	Line, Area                              string // of its last minutes
	Alarm                                   string // what is wrong with it
}

// sortLink sorts the table by a column.
type sortLink struct {
	Title, Href, Class string
	Way                string // in which the table is sorted by it; "": it is not
}

// pager leads to the pages before and after.
type pager struct {
	From, To, Of     string
	Before, Next, At string // addresses; "": there is none
}

// order is a column of the table.
type order struct {
	key, title, class string
	compare           func(a, b survey.Lock) int // the most interesting lock first; nil: nobody sorts by it
}

// orders are the columns, as they stand.
var orders = []order{
	{"name", "Lock", "name", survey.ByName},
	{"", "Last minutes", "spark", nil},
	{"waiting", "Waiting", "n", survey.ByWaiting},
	{"rate", "Hand-overs/s", "n rate", survey.ByRate},
	{"longest", "Longest wait", "n", survey.ByLongest},
	{"held", "Held for", "n held", func(a, b survey.Lock) int { return cmp.Compare(heldFor(b), heldFor(a)) }},
	{"", "Lease", "n lease", nil},
	{"", "Holder", "holder", nil},
}

func heldFor(l survey.Lock) time.Duration {
	if l.Holder == nil {
		return -1
	}
	return l.Holder.Held
}

// overview makes the page of all locks that a request asks for.
func (s *site) overview(r *http.Request) (page any, in *frame) {
	query := r.URL.Query()
	v := s.watcher.see(r.Context(), everything)
	p := &overview{frame: s.frame(v), Query: query.Get("q"), Sort: query.Get("sort")}
	p.Stream = "/events?" + url.Values{"q": {p.Query}, "sort": {p.Sort}, "from": {query.Get("from")}}.Encode()
	if v.picture == nil {
		return p, &p.frame
	}
	now := v.picture.At
	t := v.picture.Totals()
	waits := look.Count(t.Waiting) + " waiting"
	p.Figures = []label{
		{"Locks", look.Count(t.Locks)},
		{"Held", look.Count(t.Held)},
		{"Waiting", look.Count(t.Waiting)},
		{"Hand-overs/s", look.Rate(t.Rate)},
		{"Longest wait", look.Span(t.Longest)},
	}
	if _, ok := s.watcher.lockers[locks.Fair]; !ok { // who waits for plain locks is not known here
		waits = look.Count(t.Held) + " held"
		p.Figures = slices.DeleteFunc(p.Figures, func(l label) bool { return l.Name == "Waiting" || l.Name == "Longest wait" })
	}
	p.Title = waits + " · " + s.server
	all := found(v.picture.Locks, p.Query)
	by := sortedBy(p.Sort)
	p.Sort = by.key
	slices.SortFunc(all, func(a, b survey.Lock) int {
		return cmp.Or(by.compare(a, b), survey.ByWaiting(a, b), survey.ByName(a, b), strings.Compare(a.Kind, b.Kind))
	})
	for _, o := range orders {
		link := sortLink{Title: o.title, Class: o.class}
		if o.key == by.key {
			link.Way = map[bool]string{true: "ascending", false: "descending"}[o.key == "name"]
		}
		if o.compare != nil {
			link.Href = "/?" + url.Values{"q": {p.Query}, "sort": {o.key}}.Encode()
		}
		p.Sorts = append(p.Sorts, link)
	}
	var from, to int
	from, to, p.Pager = pages(query, len(all), func(from string) string {
		return "/?" + url.Values{"q": {p.Query}, "sort": {p.Sort}, "from": {from}}.Encode()
	})
	shown := all[from:to]
	trail, histories := s.watcher.histories(shown)
	p.Plots = plots(trail, now)
	span := spanOf(trail, now)
	for i, l := range shown {
		r := newRow(l)
		r.Line, r.Area = spark(histories[i], now, span)
		p.Rows = append(p.Rows, r)
	}
	p.Lately, p.Deaf = s.watcher.happened()
	return p, &p.frame
}

// histories returns the trail of all locks together, and that of each of these.
func (w *watcher) histories(of []survey.Lock) (all []point, each [][]point) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range of {
		each = append(each, w.trails[key{l.Kind, l.Name}])
	}
	return w.trails[everything], each
}

// happened returns what was overheard of all locks, and why not all can be heard.
func (w *watcher) happened() (lately []said, deaf string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, why := range w.deaf {
		deaf = max(deaf, why)
	}
	return sayings(w.lately), deaf
}

func sortedBy(want string) order {
	for _, o := range orders {
		if o.key == want && o.compare != nil {
			return o
		}
	}
	return orders[2]
}

// found returns the locks of which the name, the owner or the note has this text.
func found(all []survey.Lock, text string) []survey.Lock {
	text = strings.ToLower(text)
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	return slices.DeleteFunc(slices.Clone(all), func(l survey.Lock) bool {
		h := l.Holder
		return !has(l.Name) && (h == nil || !has(h.Owner) && !has(h.Note))
	})
}

// pages returns which part of n things the query asks for, and the way to the others.
func pages(query url.Values, n int, href func(from string) string) (from, to int, p pager) {
	from, _ = strconv.Atoi(query.Get("from")) // nonsense is the beginning
	if from < 0 || from >= n {
		from = 0
	}
	to = min(n, from+perPage)
	p = pager{From: look.Count(min(n, from+1)), To: look.Count(to), Of: look.Count(n)}
	if from > 0 {
		p.Before = href(strconv.Itoa(max(0, from-perPage)))
	}
	if to < n {
		p.Next = href(strconv.Itoa(to))
	}
	return from, to, p
}

// href is the address of a page of a lock, with one more field and its value if they are given.
func (k key) href(path string, more ...string) string {
	values := url.Values{"name": {k.name}}
	if k.kind != locks.Fair {
		values.Set("kind", k.kind)
	}
	if len(more) == 2 {
		values.Set(more[0], more[1])
	}
	return path + "?" + values.Encode()
}

func newRow(l survey.Lock) row {
	k := key{l.Kind, l.Name}
	r := row{
		ID: short("lock", k.kind, k.name), Name: look.Plain(l.Name), Href: k.href("/lock"), Holder: look.Holder(l.Holder),
		Waiting: look.Count(l.Waiting), Rate: look.Rate(l.Rate), Longest: "-", Held: "-", Remaining: "-", Alarm: alarm(l.Holder, l.Damaged, l.Waiting),
	}
	if l.Kind != locks.Fair {
		r.Kind, r.Waiting = l.Kind, "-" // its line is known to the waiters' own processes only
	}
	if l.Waiting > 0 {
		r.Longest = look.Span(l.Longest)
	}
	if h := l.Holder; h != nil {
		r.Held, r.Remaining = look.Span(h.Held), look.Span(h.Remaining)
	}
	return r
}
