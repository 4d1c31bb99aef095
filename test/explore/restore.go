package explore

import "time"

// restore puts the server into a state.
func (e *engine) restore(w *words, k *keys) {
	m := e.mini
	m.FlushAll()
	if k.ends != absent {
		since := int64(nowMS - 1)
		if k.owner == placeholder { // all leases are the same
			since = nowMS + int64(k.kept-k.lease)
		}
		m.HSet(e.keys.Record(), "owner", w.owner(k.owner), "token", w.token(k.token), "since", number(since), "lease", number(int64(k.lease)))
		for t, end := range k.holds {
			if end != absent {
				m.HSet(e.keys.Record(), w.ticket(int8(t)), at(end)+":1")
			}
		}
		if k.kept != absent {
			m.HSet(e.keys.Record(), "kept", at(k.kept)+":0")
		}
		e.expire(e.keys.Record(), k.ends)
	}
	for _, el := range k.queue[:k.length] {
		_, _ = m.RPush(e.keys.Queue(), w.place(el.place)+":"+w.ticket(el.ticket)) // the key is of no other type
	}
	if k.length > 0 {
		e.expire(e.keys.Queue(), k.lined)
	}
	e.restoreWaiters(w, k)
	if k.last != 0 {
		_ = m.Set(e.keys.Token(), w.token(k.last)) // the key is of no other type
		e.expire(e.keys.Token(), ms(longest.Milliseconds()))
	}
	for i := range clients {
		channel := e.callers[i].Channel(e.keys)
		if k.heard[i] {
			e.subscriber.Subscribe(channel)
		} else {
			e.subscriber.Unsubscribe(channel)
		}
	}
	e.subscriber.Subscribe("flush")
}

func (e *engine) restoreWaiters(w *words, k *keys) {
	add := func(member string, end ms, sign float64) {
		if end != absent {
			// The key is of no other type.
			_, _ = e.mini.ZAdd(e.keys.Waiters(), sign*float64(nowMS+int64(end)), member)
		}
	}
	for t := range int8(tickets) {
		add(w.ticket(t), k.waits[t], 1)
		add("!"+w.ticket(t), k.retired[t], -1)
		add("#"+w.ticket(t), k.forced[t], -1)
	}
	for c := range clients {
		add("~"+names[c], k.blind[c], -1)
		add("?"+names[c], k.passed[c], -1)
	}
	add("?", k.gather, -1)
	if k.waitered != absent {
		e.expire(e.keys.Waiters(), k.waitered)
	}
}

// expire has a key end at the given time. In the very millisecond of its end the key is still
// there.
func (e *engine) expire(key string, end ms) {
	e.mini.SetTTL(key, max(time.Duration(end)*time.Millisecond, 1))
}
