package explore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/locks/lua"
)

var errForever = errors.New("a key would stay for ever")

// longest is how long an untouched key lives at most: the token's key lives longest.
const longest = lua.TokenTTL + 2*time.Duration(lease)*time.Millisecond

// capture reads the state that a script left behind.
func (e *engine) capture(w *words, before *keys) (keys, error) {
	k := noKeys()
	k.heard = before.heard
	for _, key := range e.mini.Keys() {
		ttl := e.mini.TTL(key)
		end := ms(ttl.Milliseconds())
		if ttl <= 0 || ttl > longest {
			return k, fmt.Errorf("%w: %s", errForever, key)
		}
		var err error
		switch key {
		case e.keys.Record():
			k.ends = end
			err = e.captureRecord(w, &k)
		case e.keys.Queue():
			k.lined = end
			err = e.captureQueue(w, &k)
		case e.keys.Waiters():
			k.waitered = end
			err = e.captureWaiters(w, &k)
		case e.keys.Token():
			k.last, err = w.readToken(e.mini.Get(key))
		default:
			err = fmt.Errorf("%w: key %s", errStrange, key)
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

func (w *words) readToken(text string, err error) (int32, error) {
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return w.fromToken(n), err
}

func (e *engine) captureRecord(w *words, k *keys) error {
	fields, err := e.mini.HKeys(e.keys.Record())
	for _, field := range fields {
		value := e.mini.HGet(e.keys.Record(), field)
		deadline, _, _ := strings.Cut(value, ":")
		n, _ := strconv.ParseInt(deadline, 10, 64) // for the owner, n is not used
		switch {
		case err != nil:
		case field == "owner":
			k.owner, err = w.fromOwner(value)
		case field == "token":
			k.token = w.fromToken(n)
		case field == "lease":
			k.lease = ms(n)
		case field == "since":
		case field == "kept":
			k.kept = ms(n - nowMS)
		default:
			var t int8
			t, err = w.fromTicket(field)
			k.holds[t] = ms(n - nowMS)
		}
	}
	if err == nil && k.owner == nobody {
		err = fmt.Errorf("%w: a record without an owner: %q", errStrange, fields)
	}
	return err
}

func (e *engine) captureQueue(w *words, k *keys) error {
	list, err := e.mini.List(e.keys.Queue())
	if err == nil && len(list) > len(k.queue) {
		err = fmt.Errorf("%w: a line of %q", errStrange, list)
	}
	if err != nil {
		return err
	}
	for i, text := range list {
		place, ticket, _ := strings.Cut(text, ":")
		n, err := strconv.ParseInt(place, 10, 64)
		if err != nil {
			return err
		}
		t, err := w.fromTicket(ticket)
		if err != nil {
			return err
		}
		k.queue[i] = element{w.fromPlace(n), t}
	}
	k.length = int8(len(list))
	return nil
}

func (e *engine) captureWaiters(w *words, k *keys) error {
	all, err := e.mini.SortedSet(e.keys.Waiters())
	for member, score := range all {
		end := until(score)
		name := member[1:]
		switch {
		case err != nil:
		case member == "?":
			k.gather = end
		case member[0] == '~':
			k.blind[clientNamed(name)] = end
		case member[0] == '?':
			k.passed[clientNamed(name)] = end
		default:
			times := &k.waits
			switch member[0] {
			case '!':
				member, times = name, &k.retired
			case '#':
				member, times = name, &k.forced
			}
			var t int8
			t, err = w.fromTicket(member)
			times[t] = end
		}
	}
	return err
}

func clientNamed(name string) int8 {
	for i := range int8(clients) {
		if names[i] == name {
			return i
		}
	}
	return 0
}
