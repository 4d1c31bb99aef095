package lua

import (
	"strings"
	"testing"
)

var names = []struct{ name, want string }{
	{"a", "{a}"},
	{"{a}", "{a}"},
	{"order:{42}:paid", "order:{42}:paid"},
	{"{a}{b}", "{a}{b}"},
	{"{{a}}", "{{a}}"},
	{"x{}y", "{x{}y}"},
	{"{}", "{{}}"},
	{"{}{a}", "{{}{a}}"},
	{"a{b", "{a{b}"},
	{"{", "{{}"},
	{"a}b", "{a}b}"},
	{"a}{b", "{a}{b}"},
	{"lock:a", "{lock:a}"},
	{"a b\tc\nd", "{a b\tc\nd}"},
	{"straße 7 ✓", "{straße 7 ✓}"},
	{"\x00\xff", "{\x00\xff}"},
	{strings.Repeat("n", 512), "{" + strings.Repeat("n", 512) + "}"},
	{"{a}" + strings.Repeat("n", 509), "{a}" + strings.Repeat("n", 509)},
}

func TestANameKeepsItsHashTagOrIsWrappedIntoOne(t *testing.T) {
	for _, c := range names {
		keys, err := NewKeys("fairlock", c.name)
		must(t, err)
		want := [4]string{"fairlock:lock:" + c.want, "fairlock:queue:" + c.want, "fairlock:waiters:" + c.want, "fairlock:token:" + c.want}
		equal(t, "keys of "+c.name, [4]string{keys.Record(), keys.Queue(), keys.Waiters(), keys.Token()}, want)
		equal(t, "freed of "+c.name, Freed("fairlock", keys), "fairlock:freed:"+c.want)
	}
}

func TestAnyPrefixWithoutBracesStandsBeforeTheKind(t *testing.T) {
	for _, prefix := range []string{"p", "my:app", " ", strings.Repeat("p", 128)} {
		keys, err := NewKeys(prefix, "a")
		must(t, err)
		equal(t, "record", keys.Record(), prefix+":lock:{a}")
		equal(t, "channels", Channels(prefix), prefix+":wake:")
	}
}

func TestANameOrPrefixThatLeavesNoHashTagIsAnError(t *testing.T) {
	for _, bad := range []struct{ prefix, name string }{
		{"fairlock", ""},
		{"fairlock", "}"},
		{"fairlock", "}a"},
		{"fairlock", "}{a}"},
		{"fairlock", strings.Repeat("n", 513)},
		{"", "a"},
		{"{", "a"},
		{"}", "a"},
		{"{p}", "a"},
		{strings.Repeat("p", 129), "a"},
	} {
		if keys, err := NewKeys(bad.prefix, bad.name); err == nil || keys != (Keys{}) {
			t.Errorf("prefix %.20q, name %.20q: %v, %v", bad.prefix, bad.name, keys, err)
		}
	}
}

func TestNoTwoLocksShareAKey(t *testing.T) {
	owner := map[string]string{}
	for _, name := range []string{"a", "lock:a", "queue:a", "token:{a}", "{a}:queue", "waiters:{a}", "lock:{a}", "{lock:}a", "fairlock:lock:{a}"} {
		for _, key := range keysOf(t, name).all() {
			if other, taken := owner[key]; taken {
				t.Errorf("%q and %q share %s", name, other, key)
			}
			owner[key] = name
		}
	}
}

// Under p:lock, the line of a lock would have the same key as the record of another lock under p.
func TestAPrefixWhoseKeysCouldBeThoseOfAShorterOneIsRefused(t *testing.T) {
	for _, word := range []string{"lock", "queue", "waiters", "token", "wake", "freed", "plain"} {
		for _, prefix := range []string{"p:" + word, "p:" + word + ":q", "p:q:" + word} {
			if err := CheckPrefix(prefix); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), `"p`) {
				t.Errorf("%s: %v", prefix, err)
			}
		}
		for _, prefix := range []string{word, word + ":p", "p:" + word + "s", "p" + word} {
			if err := CheckPrefix(prefix); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := NewKeys("p:plain:plain", "x"); err == nil {
		t.Error("plain locks under a prefix that is one of plain locks")
	}
}

func TestPlainAndFairLocksUnderOnePrefixShareNoKeyAndNoChannel(t *testing.T) {
	fair, err := NewKeys("p", "x")
	must(t, err)
	plain, err := NewKeys(Plain("p"), "x")
	must(t, err)
	for i, key := range plain.all() {
		equal(t, "plain", key, strings.Replace(fair.all()[i], "p:", "p:plain:", 1))
	}
	a, b := NewServer(nil, Channels("p"), "c"), NewPlainServer(nil, Channels("p"), "c")
	equal(t, "channel of a fair one", a.Channel(fair), "p:wake:c")
	equal(t, "channel of a plain one", b.Channel(plain), "p:plain:wake:c")
	equal(t, "releases of a plain one", b.Freed(plain), "p:plain:freed:{x}")
}

func TestTheFourKeysOfALockLieInTheSlotOfItsTag(t *testing.T) {
	c := clusterClient(t, cluster(t))
	for _, name := range names {
		want := c.ClusterKeySlot(ctx, hashed(name.want)).Val()
		for _, key := range keysOf(t, name.name).all() {
			slot, err := c.ClusterKeySlot(ctx, key).Result()
			must(t, err)
			equal(t, "slot of "+key, slot, want)
		}
	}
}

func TestTheRecordTellsTheKeysOfItsLock(t *testing.T) {
	for _, name := range names {
		want := keysOf(t, name.name)
		got, err := KeysOf("fairlock", want.Record())
		must(t, err)
		equal(t, "keys of "+want.Record(), got, want)
	}
}

func TestWhatIsNoRecordTellsNoKeys(t *testing.T) {
	for _, key := range []string{"", "{a}", "fairlock:lock:", "fairlock:lock:a", "fairlock:lock:x{}y", "fairlock:queue:{a}", "other:lock:{a}"} {
		if keys, err := KeysOf("fairlock", key); err == nil || keys != (Keys{}) {
			t.Errorf("%q: %v, %v", key, keys, err)
		}
	}
}

func FuzzNewKeys(f *testing.F) {
	for _, name := range names {
		f.Add("fairlock", name.name)
	}
	f.Add("", "")
	f.Add("{p}", "}a")
	f.Fuzz(func(t *testing.T, prefix, name string) {
		keys, err := NewKeys(prefix, name)
		if err != nil {
			return
		}
		tag := hashed(keys.Record())
		if tag == keys.Record() {
			t.Fatalf("%q has no hash tag", keys.Record())
		}
		for _, key := range keys.all() {
			equal(t, "hash tag of "+key, hashed(key), tag)
		}
		again, err := NewKeys(prefix, strings.TrimPrefix(keys.Record(), prefix+":lock:"))
		if err == nil {
			equal(t, "keys of the wrapped name", again, keys)
		}
	})
}

// hashed returns the part of a key that decides its slot, in the words of the cluster
// specification: the text between the first { and the first } after it, if there is any, else the
// whole key.
func hashed(key string) string {
	for i := range len(key) {
		if key[i] != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j == i+1 {
					return key
				}
				return key[i+1 : j]
			}
		}
		return key
	}
	return key
}

func TestANameThatBeginsAndEndsWithATagIsNamedAsItWasGiven(t *testing.T) {
	for given, want := range map[string]string{"{a}:{b}": "{a}:{b}", "{a}": "a", "a": "a", "{a}b": "{a}b", "a}b": "a}b"} {
		keys, err := NewKeys("fairlock", given)
		must(t, err)
		if name, _, err := Named("fairlock", keys.Record()); err != nil || name != want {
			t.Errorf("%q is called %q, %v", given, name, err)
		}
	}
}
