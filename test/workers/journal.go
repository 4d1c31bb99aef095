package workers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// JournalArgs returns the options that have a redis-server keep a journal in dir: its append-only
// file, in one piece. The server writes the file as it goes. Unlike MONITOR, that costs clients
// next to nothing.
func JournalArgs(dir string) []string {
	return []string{"--dir", dir, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"}
}

// Journal is every write that a server executed, also those of scripts, in the order of execution.
type Journal [][]string

// ReadJournal reads what a server has written so far: all that it has answered, and no part of what
// it is executing.
func ReadJournal(tb testing.TB, dir string) Journal {
	tb.Helper()
	var journal Journal
	FollowJournal(tb, dir, func(words []string) { journal = append(journal, words) })
	return journal
}

// FollowJournal is ReadJournal for a journal that is too long to keep. It shows each command once,
// in order.
func FollowJournal(tb testing.TB, dir string, show func(words []string)) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		tb.Fatalf("the journal in %s: %d files, %v", dir, len(files), err)
	}
	file, err := os.Open(files[0])
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<20)
	for n := 0; ; n++ {
		words, err := readCommand(in)
		// The file ends in the middle of a command.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if err != nil {
			tb.Fatalf("the journal's command %d: %v", n, err)
		}
		show(words)
	}
}

// readCommand reads one command as Redis writes it: *<words>, then $<length> and the bytes of each.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readNumber(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := readNumber(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:size])
	}
	return words, nil
}

func readNumber(in *bufio.Reader, sign byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != sign {
		return 0, fmt.Errorf("%q does not begin with %c", line, sign)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// Verdict is what a journal says of a lock.
type Verdict struct {
	Grants []Grant // in order
	Queued int     // of the grants, how many had waited in line
	// Each is a grant to a ticket while an earlier one waited, or a place given out of order.
	Inversions []string
	Overlaps   []string // each is a grant while the previous record was still there
	Waiting    []string // tickets that were still in line at the end
}

// Grant is a lock given to a ticket, or a turn of the ticket on the hold of the one before.
type Grant struct {
	Token int64  // of the record; the turns of a run have the tokens just before
	Owner string // client:counter
}

// Judge follows the line of the lock called name. A ticket waits from its arrival in the queue
// until it is made the holder, or until its client has it leave because it had a turn. To be
// dropped from the queue does not end the wait. Judge only looks at tickets that count: those of
// clients that were alive and reachable all the time.
func (j Journal) Judge(name string, counts func(ticket string) bool) Verdict {
	return j.judge("fairlock", name, counts)
}

// JudgePlain is Judge for a lock without a line: no ticket comes before another, and all count.
func (j Journal) JudgePlain(name string) Verdict {
	return j.judge("fairlock:plain", name, func(string) bool { return true })
}

func (j Journal) judge(prefix, name string, counts func(ticket string) bool) Verdict {
	l := &watched{
		queue: prefix + ":queue:{" + name + "}", record: prefix + ":lock:{" + name + "}",
		placed: make(map[string]int64), waiting: make(map[string]int64),
	}
	for _, words := range j {
		switch verb := strings.ToUpper(words[0]); {
		case len(words) > 1 && words[1] == l.queue:
			l.queued(verb, words, counts)
		case verb == "HSET" && words[1] == l.record && words[2] == "owner":
			l.granted(words[2:], counts)
		case (verb == "DEL" || verb == "UNLINK") && words[1] == l.record:
			l.held = ""
		}
	}
	for ticket := range l.waiting {
		l.Waiting = append(l.Waiting, ticket)
	}
	return l.Verdict
}

// watched is a lock while its journal is followed.
type watched struct {
	Verdict
	queue, record string
	line          []string         // the queue's elements
	leaving       []string         // those that a script is about to take out together
	token         int64            // of the record, or of the last one
	placed        map[string]int64 // ticket -> its latest place
	waiting       map[string]int64 // ticket in line -> its place
	last          int64            // the largest place given
	held          string           // the ticket in the record; "": there is no record
}

// queued notes a change of the queue. A script that drops a ticket pops it alone. Others that go
// leave: they had turns.
func (l *watched) queued(verb string, words []string, counts func(string) bool) {
	switch verb {
	case "RPUSH":
		for _, element := range words[2:] { // those that join in one request
			l.line = append(l.line, element)
			l.arrives(element, counts)
		}
	case "LPUSH":
		l.line = slices.Insert(l.line, 0, words[2])
		l.arrives(words[2], counts)
	case "LINSERT":
		l.line = slices.Insert(l.line, max(0, slices.Index(l.line, words[3])), words[4])
		l.arrives(words[4], counts)
	case "LPOP":
		n := 1
		if len(words) > 2 {
			n, _ = strconv.Atoi(words[2]) // written by Redis
			for _, element := range l.line[:min(n, len(l.line))] {
				l.turned(element, counts)
			}
		}
		l.line = l.line[min(n, len(l.line)):]
	case "LSET":
		if i, err := strconv.Atoi(words[2]); err == nil && i < len(l.line) {
			l.leaving = append(l.leaving, l.line[i])
			l.line[i] = ""
		}
	case "LREM":
		if words[3] != "" && slices.Contains(l.line, words[3]) {
			l.leaving = append(l.leaving, words[3])
		}
		slices.Sort(l.leaving) // the script takes them out from the end
		for _, element := range l.leaving {
			l.turned(element, counts)
		}
		l.leaving = nil
		l.line = slices.DeleteFunc(l.line, func(element string) bool { return element == words[3] })
	case "DEL", "UNLINK":
		l.line = nil
	}
}

// turned notes that a ticket left the line because it had a turn.
func (l *watched) turned(element string, counts func(string) bool) {
	_, ticket, _ := strings.Cut(element, ":")
	place, waited := l.waiting[ticket]
	if !waited || !counts(ticket) {
		return
	}
	l.turn(ticket, place, true, l.token)
}

// turn notes a turn of a ticket. Nobody with an earlier place may wait.
func (l *watched) turn(ticket string, place int64, waited bool, token int64) {
	part := strings.SplitN(ticket, ":", 3)
	l.Grants = append(l.Grants, Grant{token, part[0] + ":" + part[1]})
	delete(l.waiting, ticket)
	if waited {
		l.Queued++
	}
	for other, before := range l.waiting {
		if !waited || before < place {
			l.Inversions = append(l.Inversions, fmt.Sprintf("%s was granted at place %d before %s at %d", ticket, place, other, before))
			return
		}
	}
}

// arrives notes a place:ticket. A new place must be larger than all earlier places, because places
// follow the arrivals. A ticket may come back to its own place.
func (l *watched) arrives(element string, counts func(string) bool) {
	at, ticket, _ := strings.Cut(element, ":")
	if !counts(ticket) {
		return
	}
	place, err := strconv.ParseInt(at, 10, 64)
	if err != nil || place != l.placed[ticket] && place <= l.last {
		l.Inversions = append(l.Inversions, fmt.Sprintf("%q arrived after place %d was given", element, l.last))
	}
	l.last = max(l.last, place)
	l.placed[ticket], l.waiting[ticket] = place, place
}

// granted notes a new record. One of its fields is the ticket.
func (l *watched) granted(fields []string, counts func(string) bool) {
	var token int64
	var ticket string
	for pair := range slices.Chunk(fields, 2) {
		switch {
		case pair[0] == "token":
			token, _ = strconv.ParseInt(pair[1], 10, 64) // no token is 0
		case strings.Contains(pair[0], ":"):
			ticket = pair[0]
		}
	}
	if l.held != "" {
		l.Overlaps = append(l.Overlaps, fmt.Sprintf("%s was granted while %s had a record", ticket, l.held))
	}
	l.held, l.token = ticket, token
	if !counts(ticket) {
		return
	}
	place, waited := l.waiting[ticket]
	l.turn(ticket, place, waited, token)
}
