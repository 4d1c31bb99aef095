package lua

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Longest names, in bytes. Names end up in keys, which every client of the server's operator has to
// read.
const (
	maxName   = 512
	maxPrefix = 128
)

// Keys are the names of one lock's four keys. All four share one hash tag, so they live in one slot
// of a cluster.
type Keys struct {
	text string    // the names, one after the other
	ends [3]uint16 // where each name but the last ends
}

// Record is the hash: owner, token, since, lease, and a field per hold.
func (k Keys) Record() string { return k.text[:k.ends[0]] }

// Queue is the list: the line, next first.
func (k Keys) Queue() string { return k.text[k.ends[0]:k.ends[1]] }

// Waiters is the sorted set: ticket -> liveness deadline.
func (k Keys) Waiters() string { return k.text[k.ends[1]:k.ends[2]] }

// Token is the string: the largest token given.
func (k Keys) Token() string { return k.text[k.ends[2]:] }

// NewKeys builds the keys of the lock called name under prefix. The kind stands before the name, so
// the keys of two locks never meet. A name with a hash tag of its own keeps that tag. Any other
// name is wrapped into a tag, so a and {a} are the same lock.
func NewKeys(prefix, name string) (Keys, error) {
	if err := CheckPrefix(strings.TrimSuffix(prefix, plain)); err != nil {
		return Keys{}, err
	}
	switch {
	case name == "":
		return Keys{}, errors.New("the name is empty")
	case len(name) > maxName:
		return Keys{}, fmt.Errorf("the name is %d bytes long, more than %d", len(name), maxName)
	case name[0] == '}':
		return Keys{}, errors.New("the name starts with '}', which leaves no hash tag")
	}
	if !tagged(name) {
		name = "{" + name + "}"
	}
	return build(prefix, name), nil
}

// build returns the keys for a name that has its hash tag.
func build(prefix, name string) Keys {
	var k Keys
	k.text = prefix + ":lock:" + name + prefix + ":queue:" + name + prefix + ":waiters:" + name + prefix + ":token:" + name
	end := 0
	for i, kind := range [...]string{":lock:", ":queue:", ":waiters:"} {
		end += len(prefix) + len(kind) + len(name)
		k.ends[i] = uint16(end) //nolint:gosec // four of the longest names are less than 3,000 bytes
	}
	return k
}

// KeysOf are the keys of the lock with this record key.
func KeysOf(prefix, record string) (Keys, error) {
	name, ok := strings.CutPrefix(record, prefix+":lock:")
	if !ok || !tagged(name) || name[0] == '}' || len(name) > maxName+len("{}") {
		return Keys{}, fmt.Errorf("%.200q is no record under %q", record, prefix)
	}
	return build(prefix, name), nil
}

// Named is the lock with this record key. name is as people gave it, without braces that were only
// put around it. One that begins and ends with a tag is as it was given.
func Named(prefix, record string) (name string, keys Keys, err error) {
	keys, err = KeysOf(prefix, record)
	if err != nil {
		return "", keys, err
	}
	name = strings.TrimPrefix(record, prefix+":lock:")
	inner := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
	_, behind, _ := strings.Cut(inner, "}")
	if len(inner) == len(name)-2 && !strings.Contains(behind, "{") {
		if same, err := NewKeys(prefix, inner); err == nil && same == keys {
			name = inner
		}
	}
	return name, keys, nil
}

// all is the keys in the order in which the scripts take them.
func (k Keys) all() []string { return []string{k.Record(), k.Queue(), k.Waiters(), k.Token()} }

// Channels is what the channel of every client under prefix begins with.
func Channels(prefix string) string { return prefix + channels }

const channels = ":wake:"

// Patterns match the channels of all clients under prefix, and the channels of all locks without a
// line.
func Patterns(prefix string) []string {
	return []string{globbed(prefix) + ":wake:*", globbed(prefix) + ":freed:*"}
}

// Freed is the channel on which releases of a lock without a line are told.
func Freed(prefix string, keys Keys) string {
	return prefix + ":freed:" + keys.Record()[len(prefix+":lock:"):]
}

// FreedOf is the record key of the lock whose releases are told on this channel.
func FreedOf(prefix, channel string) (record string, ok bool) {
	name, ok := strings.CutPrefix(channel, prefix+":freed:")
	return prefix + ":lock:" + name, ok
}

// globbed is the pattern that matches exactly this text, in keys and channels.
func globbed(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// plain is what the prefix of plain locks ends with. So plain locks share nothing with the fair
// locks under the same prefix.
const plain = ":plain"

// Plain is the prefix of the plain locks of the application with this prefix.
func Plain(prefix string) string { return prefix + plain }

// kinds are the words that stand after a prefix.
var kinds = []string{"lock", "queue", "waiters", "token", "wake", "freed", "plain"}

// CheckPrefix reports what is wrong with the prefix of an application.
func CheckPrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("the prefix is empty")
	case len(prefix) > maxPrefix:
		return fmt.Errorf("the prefix is %d bytes long, more than %d", len(prefix), maxPrefix)
	case strings.ContainsAny(prefix, "{}"):
		return errors.New("the prefix has a brace, which would move the hash tag")
	}
	for at := range len(prefix) {
		if prefix[at] != ':' {
			continue
		}
		if segment, _, _ := strings.Cut(prefix[at+1:], ":"); slices.Contains(kinds, segment) {
			return fmt.Errorf("the prefix has %q after a colon: its keys could be those of a lock under %q", segment, prefix[:at])
		}
	}
	return nil
}

// tagged reports whether Redis finds a hash tag in name: the first brace opens a non-empty pair.
func tagged(name string) bool {
	_, rest, found := strings.Cut(name, "{")
	return found && strings.IndexByte(rest, '}') > 0
}
