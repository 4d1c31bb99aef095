package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

var replies = []string{
	"+OK\r\n", "-ERR no\r\n", ":42\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123456789\r\n",
	"$3\r\nfoo\r\n", "$0\r\n\r\n", "$-1\r\n", "$4\r\na\r\nb\r\n", "!5\r\nERR x\r\n", "=7\r\ntxt:abc\r\n",
	"*0\r\n", "*-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~1\r\n+a\r\n", "%1\r\n+a\r\n*1\r\n:1\r\n", "%0\r\n",
	">2\r\n+message\r\n$1\r\nx\r\n",
}

func TestRepliesOfEveryKindAreReadToTheirLastByte(t *testing.T) {
	for _, source := range []func(string) io.Reader{
		func(s string) io.Reader { return strings.NewReader(s) },
		func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
	} {
		r := bufio.NewReader(source(strings.Join(replies, "")))
		for _, want := range replies {
			got, err := readReply(r)
			if err != nil || string(got) != want {
				t.Fatalf("read %q, %v, want %q", got, err, want)
			}
		}
		if _, err := readReply(r); err != io.EOF {
			t.Fatalf("after the last reply: %v", err)
		}
	}
}

func TestARequestIsReadToItsLastByteWithItsStrings(t *testing.T) {
	one, two := "*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", "*1\r\n$0\r\n\r\n"
	r := bufio.NewReader(strings.NewReader(one + two))
	raw, args, err := readRequest(r)
	if err != nil || string(raw) != one || !slices.Equal(args, []string{"GET", "a\r\nb"}) {
		t.Fatalf("%q %q %v", raw, args, err)
	}
	raw, args, err = readRequest(r)
	if err != nil || string(raw) != two || !slices.Equal(args, []string{""}) {
		t.Fatalf("%q %q %v", raw, args, err)
	}
}

func TestWhatIsNotRESPIsCalledSo(t *testing.T) {
	for _, in := range []string{
		"PING\r\n", "*0\r\n", "*-1\r\n", "*x\r\n", "*1\n", "\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n",
		"*1\r\n$1\r\nabc", "*1\r\n$99999999999\r\n", "*1\r\n$99999999999999999999\r\n",
	} {
		if _, _, err := readRequest(bufio.NewReader(strings.NewReader(in))); !errors.Is(err, errProtocol) {
			t.Errorf("request %q: %v", in, err)
		}
	}
	for _, in := range []string{"?\r\n", "|1\r\n+a\r\n+b\r\n", "$x\r\n", "*-2\r\n", "+\n", "$1\r\nabc", "*1\r\n?\r\n"} {
		if _, err := readReply(bufio.NewReader(strings.NewReader(in))); !errors.Is(err, errProtocol) {
			t.Errorf("reply %q: %v", in, err)
		}
	}
}

func TestAConnectionThatEndsWithinAMessageIsNoProtocolError(t *testing.T) {
	for _, whole := range replies {
		for n := range len(whole) {
			_, err := readReply(bufio.NewReader(strings.NewReader(whole[:n])))
			if err == nil || errors.Is(err, errProtocol) {
				t.Errorf("reply %q cut at %d: %v", whole, n, err)
			}
		}
	}
}

func FuzzReadingNeverPanicsNorInventsBytes(f *testing.F) {
	for _, reply := range replies {
		f.Add(reply)
	}
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\na\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		if raw, err := readReply(bufio.NewReader(strings.NewReader(in))); err == nil && !strings.HasPrefix(in, string(raw)) {
			t.Errorf("reply: read %q from %q", raw, in)
		}
		if raw, _, err := readRequest(bufio.NewReader(strings.NewReader(in))); err == nil && !strings.HasPrefix(in, string(raw)) {
			t.Errorf("request: read %q from %q", raw, in)
		}
	})
}
